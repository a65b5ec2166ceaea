"""Processes of a pod: spawner, supervisor, container init, cgroups, logs."""
