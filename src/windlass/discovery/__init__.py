"""Peer information of a task for each runtime. No function has side effects.

`peers` has the addresses of all tasks; `environment` formats them for the runtime that a Framework requests, for
TensorFlow with `tensorflow`; `files` has the files that the barrier writes when all addresses are known.
"""
