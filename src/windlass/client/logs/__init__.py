"""Logs of tasks: read them once, merge them by time, or follow them."""
