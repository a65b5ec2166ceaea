"""The arguments of a container and the folder it starts in."""

import pytest

from windlass.localcluster.kubelet.containers import plan
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.model.base import Json


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        ({"command": ["python", "train.py"]}, ("python", "train.py")),
        ({"command": ["sh", "-c"], "args": ["echo $(A)"]}, ("sh", "-c", "echo a")),
        ({"args": ["echo", "$$(A)", "$(B)"]}, ("echo", "$(A)", "$(B)")),
        ({"command": ["$(A)"], "args": []}, ("a",)),
    ],
)
def test_arguments(container: Json, argv: tuple[str, ...]) -> None:
    assert plan.arguments({"name": "main", **container}, {"A": "a"}) == argv


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({}, 'no command specified for container "main": .* there is no entrypoint. Set command.'),
        ({"command": [], "args": []}, "no command specified"),
        ({"command": ["a\0b"]}, 'the command of container "main" contains a NUL byte'),
    ],
)
def test_missing_or_invalid_command_is_rejected(container: Json, message: str) -> None:
    with pytest.raises(SetupError, match=message) as refused:
        plan.arguments({"name": "main", **container}, {})
    assert refused.value.reason == "CreateContainerError"


@pytest.mark.parametrize(
    ("written", "folder"),
    [(None, "/"), ("", "/"), ("/work", "/work"), ("//work/./a/", "/work/a"), ("/$(A)", "/$(A)")],
)
def test_working_directory(written: str | None, folder: str) -> None:
    assert plan.working_directory({"name": "main", "workingDir": written}) == folder


def test_relative_working_directory_is_rejected() -> None:
    with pytest.raises(SetupError, match='workingDir "work" of container "main" is not an absolute path'):
        plan.working_directory({"name": "main", "workingDir": "work"})
