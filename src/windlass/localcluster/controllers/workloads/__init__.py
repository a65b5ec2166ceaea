"""The controllers of Jobs, StatefulSets, Deployments and ReplicaSets.

One module per kind decides: from the stored object, its pods and the time to a `Decision`. `controller` watches changes
and calls them; `executor` applies their decisions. No state is kept that does not follow from stored objects.
"""
