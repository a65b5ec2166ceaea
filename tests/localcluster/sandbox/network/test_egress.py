"""DNS forwarding of the uplink."""

from collections.abc import Callable
from pathlib import Path

import pytest

from windlass.localcluster.sandbox.network import egress


@pytest.mark.parametrize(
    ("text", "is_forwarded"),
    [
        ("nameserver 10.0.0.53\n", False),
        ("search example.com\nnameserver 10.0.0.53\nnameserver 10.0.0.54\n", False),
        ("nameserver 127.0.0.53\n", True),
        ("nameserver ::1\n", True),
        ("nameserver 10.0.0.53\nnameserver 127.0.0.1\n", True),
        ("search example.com\n", True),
        (None, True),
    ],
)
def test_pasta_forwards_dns_only_for_a_nameserver_on_the_loopback(
    text: str | None, is_forwarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With forwarding, direct queries to the nameserver of the machine get no response."""
    started: list[list[str]] = []

    def user_mode(_name: str, _hub: int, command: Callable[[str], list[str]]) -> None:
        started.append(command("/proc/1/ns/net"))

    resolver = tmp_path / "resolv.conf"
    if text is not None:
        resolver.write_text(text)
    monkeypatch.setattr(egress, "_RESOLV_CONF", resolver)
    monkeypatch.setattr(egress, "_require_program", lambda program: program)
    monkeypatch.setattr(egress, "_user_mode", user_mode)
    egress._pasta(3)
    assert ("--dns-forward" in started[0]) is is_forwarded
