"""Ports of this machine for tasks that share its network."""

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
def test_who_asks_for_no_names_gets_none(barrier: dict[str, str]) -> None:
    assert free_ports.choose(gang_objects.framework(annotations=barrier)) is None


def test_every_role_has_room_to_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight tasks more at least, or as many again."""
    monkeypatch.setattr(free_ports, "_is_free", lambda _: True)
    chosen = free_ports.choose(framework({"ps": 1, "worker": 20, "none": 0}), lambda among: among[0])
    assert chosen == {"ps": FIRST, "worker": FIRST + 9, "none": FIRST + 49}


def test_one_that_somebody_has_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter((FIRST, FIRST + 1, FIRST + 2))
    monkeypatch.setattr(free_ports, "_is_free", lambda port: port not in (FIRST + 4, FIRST + 9))
    chosen = free_ports.choose(framework({"ps": 1}), lambda _: next(tries, FIRST + 10))
    assert chosen == {"ps": FIRST + 10}


def test_somebody_who_listens_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert not free_ports._is_free(listening.getsockname()[1])


@pytest.mark.parametrize("tasks", [1, 4_000, 8_500, 8_501, 9_000, 10_000])
def test_none_outside_of_the_range(tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are wanted: above it the kernel gives ports to whoever asks for any."""
    probed: list[int] = []

    def is_free(port: int) -> bool:
        probed.append(port)
        return True

    monkeypatch.setattr(free_ports, "_is_free", is_free)
    fits = tasks <= 8_500
    refused = pytest.raises(free_ports.NoFreePortError, match=f"no {2 * tasks} consecutive free ports")
    for pick in (lambda among: among[0], lambda among: among[-1]):
        with contextlib.nullcontext() if fits else refused:
            free_ports.choose(framework({"worker": tasks}), pick)
    assert all(FIRST <= port <= LAST for port in probed)


def test_a_machine_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_ports, "_is_free", lambda _: False)
    with pytest.raises(free_ports.NoFreePortError, match="found no 9 consecutive free ports on this machine"):
        free_ports.choose(framework({"worker": 1}))
