"""Volumes of a pod: their directories and files. `containers.plan` decides where containers mount them."""
