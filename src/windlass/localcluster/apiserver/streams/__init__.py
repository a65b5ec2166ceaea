"""Logs, exec, attach and port-forward of pods over HTTP and WebSockets."""
