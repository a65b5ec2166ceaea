"""Conventions of TensorFlow for the names of roles."""

from collections.abc import Mapping

TYPES: Mapping[str, str] = {"workers": "worker", "master": "chief", "pserver": "ps", "parameterserver": "ps"}
"""TensorFlow's task types for role names. Other names are used unchanged."""
NON_MEMBERS = frozenset({"evaluator", "jupyter", "notebook", "tensorboard"})
"""Roles that are not in TensorFlow's cluster spec and have no rank in PyTorch and JAX."""


def type_of(role: str) -> str:
    return TYPES.get(role, role)


def is_member(role: str) -> bool:
    """Return whether the tasks of the role are in TensorFlow's cluster spec and have ranks in PyTorch and JAX."""
    return role not in NON_MEMBERS
