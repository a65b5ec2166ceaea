"""What a role's name says of its tasks, to TensorFlow and to everybody who learnt from it."""

from collections.abc import Mapping

TYPES: Mapping[str, str] = {"workers": "worker", "master": "chief", "pserver": "ps", "parameterserver": "ps"}
"""What roles are called, and what TensorFlow calls such a task. Another name is its own."""
NON_MEMBERS = frozenset({"evaluator", "jupyter", "notebook", "tensorboard"})
"""They look at the cluster and are not part of it: nobody waits for their servers."""


def type_of(role: str) -> str:
    return TYPES.get(role, role)


def is_member(role: str) -> bool:
    """Of the cluster that the tasks make together."""
    return role not in NON_MEMBERS
