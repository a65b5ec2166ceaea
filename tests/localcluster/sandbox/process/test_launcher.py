"""With what a spawner is started."""

import os
from pathlib import Path

import pytest

from conformance.waiting import wait_for
from windlass.localcluster.sandbox.process import launcher
from windlass.localcluster.sandbox.process.launcher import SpawnerOptions

pytestmark = pytest.mark.pods

PATIENCE_SECONDS = 100.0


def test_spawner_gets_no_secrets_of_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process of each is one of the spawner's."""
    for name in ("JUPYTER_PASSWORD", "PYTHON_KEYRING_PASSWORD", "LC_API_TOKEN"):
        monkeypatch.setenv(name, "sesame")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    launched = launcher.launch(SpawnerOptions(folder=tmp_path, cluster="c", level="plain", network="shared"))
    try:
        # The kernel shows an empty environment while exec replaces the process.
        environ = Path(f"/proc/{launched.process.pid}/environ")
        wait_for("the environment of the spawner", lambda: environ.read_bytes() != b"")
        found = environ.read_bytes().split(b"\0")
    finally:
        launched.channel.close()
        launched.process.wait(PATIENCE_SECONDS)
    assert {f"PATH={os.environ['PATH']}".encode(), f"PYTHONPATH={tmp_path}".encode()} <= set(found)
    assert not any(b"sesame" in each for each in found)
