"""Volumes of a pod: which files they contain and where containers mount them."""
