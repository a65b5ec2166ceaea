"""Peer information of a task for each runtime. Pure: values in, text out.

`peers` has the addresses of all tasks; one file per runtime formats them; `environment` selects what a Framework
requests; `files` has what the barrier writes when all addresses are known.
"""
