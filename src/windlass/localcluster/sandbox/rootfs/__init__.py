"""The root file system and the mounts of a container."""
