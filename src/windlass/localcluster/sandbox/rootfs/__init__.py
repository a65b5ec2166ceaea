"""The root file system of a container and its mounts."""
