"""What makes pods of Jobs, StatefulSets, Deployments and ReplicaSets.

One file decides for each kind: from the stored object, its pods and the time to a `Decision`. `controller` hears of
changes and asks them; `acting` does what they say. Nothing is remembered here that does not follow from what is stored.
"""
