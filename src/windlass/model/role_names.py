"""Conventions of TensorFlow for the names of roles."""

from collections.abc import Mapping

TYPES: Mapping[str, str] = {"workers": "worker", "master": "chief", "pserver": "ps", "parameterserver": "ps"}
"""TensorFlow's task types for role names. Other names are used unchanged."""
NON_MEMBERS = frozenset({"evaluator", "jupyter", "notebook", "tensorboard"})
"""Roles outside the TensorFlow cluster: other tasks do not wait for them."""


def type_of(role: str) -> str:
    return TYPES.get(role, role)


def is_member(role: str) -> bool:
    """Return whether the tasks of the role are part of the TensorFlow cluster."""
    return role not in NON_MEMBERS
