"""The embedded cluster: a Kubernetes API server over SQLite, with controllers, a scheduler and a kubelet.

No code here is specific to Frameworks: to the embedded cluster, they are custom resources. Only `store.py` contains
SQL; patches, selectors, schemas and tables need no I/O; the specifics of a kind are in `apiserver/kinds`.
"""
