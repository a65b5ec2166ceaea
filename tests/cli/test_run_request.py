"""A ConfigMap from files, compared with `kubectl create configmap --from-file`."""

import base64
import contextlib
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pods.commands import framework, role

from windlass.cli import run_request
from windlass.cli.errors import CommandError
from windlass.cli.main import main
from windlass.model.base import Json


def made(path: Path) -> Json:
    return run_request.config_map("code", "research", path)


def test_folder_contributes_its_own_files(tmp_path: Path) -> None:
    """Subfolders and names that are not valid keys are ignored."""
    (tmp_path / "train.py").write_text("print('ü')\n")
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "with space").write_text("no")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "train.pyc").write_bytes(b"\xff")
    assert made(tmp_path) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "code", "namespace": "research"},
        "data": {".hidden": "", "train.py": "print('ü')\n"},
    }


def test_file_becomes_one_key(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("one")
    (tmp_path / "other.py").write_text("two")
    assert made(tmp_path / "train.py")["data"] == {"train.py": "one"}


def test_binary_file_becomes_binary_data(tmp_path: Path) -> None:
    content = bytes(range(256))
    (tmp_path / "weights.bin").write_bytes(content)
    (tmp_path / "words").write_text("text")
    found = made(tmp_path)
    assert found["binaryData"] == {"weights.bin": base64.b64encode(content).decode()}
    assert found["data"] == {"words": "text"}


@pytest.mark.parametrize("size", [1024 * 1024, 1024 * 1024 + 1])
def test_size_limit(size: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (size - 1))
    (tmp_path / "b").write_bytes(b"x")
    if size <= run_request.MAX_CONFIG_MAP_BYTES:
        assert len(made(tmp_path)["data"]["a"]) == size - 1
    else:
        with pytest.raises(ValueError, match=f"has {size} bytes, but a ConfigMap has at most 1048576"):
            made(tmp_path)


def test_large_folder_is_rejected_without_reading_it(tmp_path: Path) -> None:
    """The file is sparse: it takes no space unless it is read."""
    with (tmp_path / "data").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="use a volume instead"):
        made(tmp_path)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("code", "found 'code', expected NAME=PATH"),
        ("code=/no/such/folder", "/no/such/folder"),
        ("code={folder}", "contains no file whose name is valid in a ConfigMap"),
    ],
)
def test_run_rejects_invalid_config_maps(option: str, words: str, tmp_path: Path) -> None:
    """Nothing is started."""
    file = tmp_path / "job.yaml"
    container = {"name": "main", "image": "x", "command": ["true"]}
    file.write_text(yaml.safe_dump(framework(role(container))))
    empty = tmp_path / "empty"
    empty.mkdir()
    result = CliRunner(env={"XDG_STATE_HOME": str(tmp_path / "state")}).invoke(
        main, ["run", "--config-map", option.format(folder=empty), str(file)]
    )
    assert result.exit_code == 2
    assert words in result.stderr.splitlines()[-1]
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("script", "mode", "message"),
    [
        ("missing.py", None, "missing.py does not exist"),
        ("./missing.py", None, "missing.py does not exist"),
        (
            "train.py",
            0o755,
            "train.py is not executable: start it with Python, `windlass run -- python train.py --lr 1`",
        ),
        ("./train.py", 0o644, "`windlass run -- python ./train.py --lr 1`"),
        ("./train.py", 0o755, ""),
    ],
)
def test_script_without_interpreter_is_rejected(
    script: str, mode: int | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if mode is not None:
        (tmp_path / "train.py").write_text("#!/usr/bin/env python3\n")
        (tmp_path / "train.py").chmod(mode)
    expected = pytest.raises(CommandError, match=re.escape(message)) if message else contextlib.nullcontext()
    with expected:
        run_request.source(None, (script, "--lr", "1"))
