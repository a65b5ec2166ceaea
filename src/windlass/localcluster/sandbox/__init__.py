"""What runs beside the daemon: one spawner, a supervisor for every pod, a small init in every container.

These processes are the only ones that fork, and they know nothing of the Kubernetes API: what to run comes to them in
`messages`. They must start fast and be small, so that nothing of asyncio or HTTP is imported here.
"""
