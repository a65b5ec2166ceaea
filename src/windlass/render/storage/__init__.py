"""Volumes of a job: NFS shares, data loading, preflight checks."""
