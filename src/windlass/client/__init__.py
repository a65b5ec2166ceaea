"""The use cases: what people do with jobs on a cluster. The Python SDK, and what `cli` calls.

Every use case is a function over a `Connection`, in a module of its own; `sdk` gathers them for Python programs.
"""
