"""Conversion between bytes and values: YAML and JSON, validation, CRDs, snapshots.

Nothing here opens a file or a socket or reads a clock. Callers pass bytes, and a file name for messages.
"""
