"""Table rows for `kubectl get` (`pkg/printers` in Kubernetes), without I/O."""
