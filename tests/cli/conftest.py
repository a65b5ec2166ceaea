"""The cluster that these tests share, and a state folder of their own: errors name the output of the last run in it."""

from pathlib import Path

import pytest
from cluster_fixtures import place, scripted_place, world

__all__ = ["place", "scripted_place", "world"]


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder
