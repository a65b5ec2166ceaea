"""Bytes in, values and faults out: YAML and JSON, their validation, the CRDs, snapshots.

Nothing here opens a file or a socket, reads a clock or decides anything: the bytes are given, with a name to
call them by in messages.
"""
