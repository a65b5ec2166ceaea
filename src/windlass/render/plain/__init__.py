"""Job file to plain Kubernetes objects that need no controller."""
