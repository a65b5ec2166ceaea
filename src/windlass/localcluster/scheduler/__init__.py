"""The scheduler: which node a pod goes to. All of it is pure but `scheduler`, which listens and writes."""
