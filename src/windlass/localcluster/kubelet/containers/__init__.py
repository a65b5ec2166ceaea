"""Everything that a container starts with: environment, arguments, user, mounts and the files below /etc.

The functions compute values from the pod and the objects that it refers to. Nothing here starts or mounts anything. An
invalid or missing object raises `SetupError`, where possible with the message that the real kubelet writes.
"""
