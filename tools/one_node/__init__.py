"""A complete one-node Kubernetes on this machine in its own namespaces: pods are real, and ending one process removes
everything."""
