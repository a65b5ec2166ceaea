"""Exec, attach and port-forward in the kubelet."""
