"""Variables that containers inherit from the machine."""

import sys
from pathlib import Path

import pytest

from windlass.localcluster.kubelet.containers import environment

_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.mark.parametrize(
    ("environ", "programs", "expected"),
    [
        ({}, "", {"PATH": _DEFAULT}),
        ({"PATH": ""}, "/venv/bin", {"PATH": f"/venv/bin:{_DEFAULT}"}),
        ({"PATH": "/bin"}, "/venv/bin", {"PATH": "/venv/bin:/bin"}),
        ({"PATH": "/venv/bin:/bin"}, "/venv/bin", {"PATH": "/venv/bin:/bin"}),
        (
            {
                "PATH": "/bin",
                "LC_ALL": "C",
                "CONDA_PREFIX": "/c",
                "https_proxy": "p",
                "HOME": "/h",
                "CUDA_HOME": "/u",
            },
            "",
            {
                "PATH": "/bin",
                "LC_ALL": "C",
                "CONDA_PREFIX": "/c",
                "https_proxy": "p",
                "HOME": "/h",
                "CUDA_HOME": "/u",
            },
        ),
        (
            {
                "PATH": "/bin",
                **dict.fromkeys(
                    (
                        "TF_CONFIG",
                        "RANK",
                        "WORLD_SIZE",
                        "KUBECONFIG",
                        "AWS_SECRET_ACCESS_KEY",
                        "PYTHONPATH",
                        "PIP",
                    ),
                    "x",
                ),
            },
            "",
            {"PATH": "/bin"},
        ),
    ],
)
def test_inherited_variables(environ: dict[str, str], programs: str, expected: dict[str, str]) -> None:
    assert environment.inherited_environment(environ, programs) == expected


@pytest.mark.parametrize(("prefix", "is_found"), [("/machine", False), ("/venv", True)])
def test_virtual_environment_is_first_in_path(
    monkeypatch: pytest.MonkeyPatch, prefix: str, is_found: bool
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "base_prefix", "/machine")
    expected = str(Path(sys.executable).parent) if is_found else ""
    assert environment.virtual_environment_programs() == expected
