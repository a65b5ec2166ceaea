"""The embedded cluster: a Kubernetes API server over SQLite, with controllers, a scheduler and a kubelet.

Nothing here knows what a Framework is: to the embedded cluster it is a custom resource. Only `store.py` contains SQL;
patches, selectors, schemas and tables need no I/O; the specifics of a kind are in `apiserver/kinds`.
"""
