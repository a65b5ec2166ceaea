"""The kubelet's part of the embedded cluster, inside the daemon: from the pods of its nodes to processes and statuses.

What to do next follows from `podlife` and `containers`, which are pure; processes are run by `sandbox`, to which this
package speaks over sockets.
"""
