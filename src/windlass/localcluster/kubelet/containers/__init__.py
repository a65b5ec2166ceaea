"""What a container starts with, from its pod and the objects that the pod refers to.

That is its environment, arguments, files, mounts and names. All of it is pure: what must be read comes in by callables
and as `facts.Facts`. What cannot be had is a `SetupError` in the kubelet's words.
Nothing here starts, writes or mounts anything.
"""
