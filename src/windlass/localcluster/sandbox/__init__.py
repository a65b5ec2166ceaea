"""The processes that run pods: one spawner, a supervisor per pod, and a small init process per container.

Only these processes fork, not the daemon. They do not know the Kubernetes API: the daemon sends `messages` that say
what to run. They must start fast and be small, so nothing here imports asyncio or an HTTP library.
"""
