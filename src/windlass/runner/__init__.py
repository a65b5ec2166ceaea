"""What `windlass run` is made of. The command itself is `cli/run.py`.

`workload` is what is run, `running` its first and last moment, `session` what happens on the cluster in between,
`onlooker` what is seen of it, `report` what is told of that, `output` and the `live_…` modules how it looks.

The cluster belongs to the run: what is done on it is asked of `kubeapi` and of `localcluster` directly. What is true of
jobs on any cluster is asked of `windlass.client`.
"""
