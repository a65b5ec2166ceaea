"""A Kubernetes API on one machine: an API server over SQLite.

Nothing here knows what a Framework is: to the embedded cluster it is one more custom resource. `store.py` alone speaks
SQL; patching, selecting, schemas and tables are pure; what is peculiar to a kind is one small file in `kinds/`.
"""
