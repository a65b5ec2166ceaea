"""Choose free ports of this machine for tasks whose pods share its network."""

import contextlib
import itertools
import random
import socket
from collections.abc import Callable

from windlass.controller.engine.api import RequestError
from windlass.model.feature_annotations import requested_features
from windlass.model.framework import Framework

_RANGE = range(15_000, 32_000)
"""Above the usual ports of system services, and below the ephemeral port range."""
_MIN_SPARE_PORTS = 8
"""Minimum number of ports per role that are reserved for scaling up."""
_TRIES = 200


class NoFreePortError(RequestError):
    """No range of consecutive free ports was found for a Framework."""


def choose(
    framework: Framework,
    pick: Callable[[range], int] = lambda among: random.choice(among),  # noqa: S311
) -> dict[str, int] | None:
    """Return the first port of each role, whose tasks have consecutive ports. None if the Framework needs no ports.

    Raises NoFreePortError.
    """
    if not requested_features(framework.metadata.annotations).uses_dns_names:
        return None
    counts = {
        role.name: role.task_number + max(role.task_number, _MIN_SPARE_PORTS)
        for role in framework.spec.task_roles
    }
    first = _start_of_free_range(sum(counts.values()), pick)
    # Each role starts after the ports of the previous ones.
    return dict(zip(counts, itertools.accumulate(counts.values(), initial=first), strict=False))


def _start_of_free_range(count: int, pick: Callable[[range], int]) -> int:
    """Return the first of `count` consecutive free ports."""
    starts = _RANGE[: max(0, len(_RANGE) - count + 1)]
    for _ in range(_TRIES if starts else 0):
        first = pick(starts)
        if all(map(_is_free, range(first, first + count))):
            return first
    raise NoFreePortError(f"cannot find {count} consecutive free ports on this machine")


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
