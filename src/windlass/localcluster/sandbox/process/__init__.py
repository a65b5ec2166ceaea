"""The processes of a pod: spawner, supervisor, container init, cgroups and logs."""
