"""Kubernetes knowledge without I/O that all packages share: types, quantities, names, patches, errors, times."""
