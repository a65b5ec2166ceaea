"""Install the controller in a cluster, and uninstall it.

The manifests are plain values. `apply` sends them to an API server, and `uninstall` deletes the objects.
"""
