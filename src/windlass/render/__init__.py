"""Render job files to Kubernetes objects. Pure: no I/O, no clock."""
