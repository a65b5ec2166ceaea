"""Manifests of the objects that the controller creates, from a Framework and its stored status.

Pure functions. No I/O and no decisions: whether an object is needed was decided and stored before.

A manifest shares parts with the pod template. Neither is ever changed in place.
"""
