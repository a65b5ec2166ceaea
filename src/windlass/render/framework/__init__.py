"""Job file to Framework: task roles, pod templates, completion policies."""
