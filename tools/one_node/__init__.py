"""A complete Kubernetes with one node on this machine, in namespaces of its own: the pods are real, and ending one
process removes all of it."""
