"""Install the controller in a cluster, and uninstall it.

The manifests are values. `apply` and `uninstall` send them to an API server through `kubeapi`.
"""
