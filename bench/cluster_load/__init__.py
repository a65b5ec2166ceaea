"""Measure the load of thousands of jobs on a Kubernetes API, for several controllers."""
