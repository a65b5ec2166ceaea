"""Run jobs on a cluster on this machine: the parts of `windlass run` that do not depend on a terminal.

`run` starts the cluster and returns the exit code, `session` submits jobs to it and waits for them, `watcher` observes
them, and `report` decides which lines are output.
"""
