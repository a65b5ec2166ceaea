"""Exec, attach and port-forward on the side of the kubelet."""
