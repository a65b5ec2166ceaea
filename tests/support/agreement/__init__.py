"""Runs the same job file under the operator that it was written for and under Windlass, and compares what happened.

`cases` has the data, `hollow` the cluster without containers, `subjects` how each controller shows its progress,
`player` the course of a case, `originals` the operators, `generate` the generators.
"""
