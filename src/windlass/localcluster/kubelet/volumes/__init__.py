"""Volumes of a pod: their files, and where containers mount them."""
