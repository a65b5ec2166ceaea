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
        ({"PATH": ""}, "/own/bin", {"PATH": f"{_DEFAULT}:/own/bin"}),
        ({"PATH": "/bin"}, "/own/bin", {"PATH": "/bin:/own/bin"}),
        ({"PATH": "/own/bin:/bin"}, "/own/bin", {"PATH": "/own/bin:/bin"}),
        (
            {"PATH": "/bin", "VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda"},
            "/own/bin",
            {"PATH": "/venv/bin:/bin:/own/bin", "VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda"},
        ),
        (
            {"PATH": "/conda/bin:/venv/bin", "VIRTUAL_ENV": "/venv"},
            "",
            {"PATH": "/conda/bin:/venv/bin", "VIRTUAL_ENV": "/venv"},
        ),
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
                "PATH": "/c/bin:/bin",
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
                        "PIP_INDEX_URL",
                        "PIP_EXTRA_INDEX_URL",
                        "CONDA_TOKEN",
                        "CONDA_CHANNELS",
                        "LC_API_TOKEN",
                        "SSL_CERT_PASSWORD",
                        "HF_TOKEN",
                        "CLIENT_SECRET",
                        "DATABASE_PASSWORD",
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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("http://proxy:3128", "http://proxy:3128"),
        ("http://user:sesame@proxy:3128/", "http://proxy:3128/"),
        ("user:sesame@proxy:3128", "proxy:3128"),
        ("http://user:se/s@me://@proxy:3128", "http://proxy:3128"),
        ("HTTP://sesame@proxy", "HTTP://proxy"),
        ("localhost,.example.com", "localhost,.example.com"),
    ],
)
@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "no_proxy"])
def test_proxy_is_inherited_without_its_password(name: str, value: str, expected: str) -> None:
    assert environment.inherited_environment({"PATH": "/bin", name: value}) == {
        "PATH": "/bin",
        name: expected,
    }


@pytest.mark.parametrize(("prefix", "is_found"), [("/machine", False), ("/venv", True)])
def test_programs_of_windlass_are_those_of_its_virtual_environment(
    monkeypatch: pytest.MonkeyPatch, prefix: str, is_found: bool
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "base_prefix", "/machine")
    expected = str(Path(sys.executable).parent) if is_found else ""
    assert environment.virtual_environment_programs() == expected
