"""The controllers of Jobs, StatefulSets, Deployments and ReplicaSets.

One module per kind makes a `Decision` from the stored object, its pods (for a Deployment, its ReplicaSets) and the
time. `controller` watches changes and calls these modules; `executor` applies their decisions. No state is kept that
does not follow from stored objects.
"""
