"""Free ports of this machine for tasks that share its network."""

import contextlib
import socket

import builders
import gang_objects
import pytest

from windlass.model import names
from windlass.model.framework import Framework
from windlass.runner import free_ports

FIRST, LAST = 15_000, 31_999


def framework(roles: dict[str, int], runtime: str = "tensorflow") -> Framework:
    asks = {names.RUNTIME_ANNOTATION: runtime} if runtime else {}
    return builders.framework("digits", *(builders.role(*role) for role in roles.items()), annotations=asks)


@pytest.mark.parametrize("barrier", [{}, {names.BARRIER_ANNOTATION: "true"}])
def test_framework_without_peers_gets_no_ports(barrier: dict[str, str]) -> None:
    assert free_ports.choose(gang_objects.framework(annotations=barrier)) is None


def test_every_role_has_ports_for_scaling_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are ports for at least eight additional tasks, or for twice the number of tasks."""
    monkeypatch.setattr(free_ports, "_is_free", lambda _: True)
    chosen = free_ports.choose(framework({"ps": 1, "worker": 20, "none": 0}), lambda among: among[0])
    assert chosen == {"ps": FIRST, "worker": FIRST + 9, "none": FIRST + 49}


def test_used_port_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter((FIRST, FIRST + 1, FIRST + 2))
    monkeypatch.setattr(free_ports, "_is_free", lambda port: port not in (FIRST + 4, FIRST + 9))
    chosen = free_ports.choose(framework({"ps": 1}), lambda _: next(tries, FIRST + 10))
    assert chosen == {"ps": FIRST + 10}


def test_listening_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert not free_ports._is_free(listening.getsockname()[1])


@pytest.mark.parametrize("tasks", [1, 4_000, 8_500, 8_501, 9_000, 10_000])
def test_ports_are_in_range(tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel assigns ports above the range to outgoing connections."""
    probed: list[int] = []

    def is_free(port: int) -> bool:
        probed.append(port)
        return True

    monkeypatch.setattr(free_ports, "_is_free", is_free)
    fits = tasks <= 8_500
    refused = pytest.raises(
        free_ports.NoFreePortError, match=f"cannot find {2 * tasks} consecutive free ports"
    )
    for pick in (lambda among: among[0], lambda among: among[-1]):
        with contextlib.nullcontext() if fits else refused:
            free_ports.choose(framework({"worker": tasks}), pick)
    assert all(FIRST <= port <= LAST for port in probed)


def test_too_few_free_ports_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_ports, "_is_free", lambda _: False)
    with pytest.raises(
        free_ports.NoFreePortError, match="cannot find 9 consecutive free ports on this machine"
    ):
        free_ports.choose(framework({"worker": 1}))
