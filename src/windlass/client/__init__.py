"""Use cases for jobs on a cluster, called by `cli` and by the Python SDK.

A use case is a function that takes a `Connection`. `sdk` offers most of them to Python programs.
"""
