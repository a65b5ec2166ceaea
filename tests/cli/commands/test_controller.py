"""`windlass controller`: settings from all sources, and messages when it cannot start.

Tests of running Frameworks are elsewhere.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass.cli.commands import controller as module
from windlass.cli.main import main
from windlass.model.settings import LogFormat, Settings
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.settings import environment

PATIENCE_SECONDS = 120
NO_VARIABLES = {name: None for name in os.environ if name.startswith(environment.PREFIX)} | dict.fromkeys(
    environment.FALLBACK_VARIABLES.values()
)
"""Variables of this machine do not affect the tests."""


def windlass(*arguments: str | Path, variables: Mapping[str, str] | None = None) -> Result:
    return CliRunner(env={**NO_VARIABLES, **(variables or {})}).invoke(
        main, ["controller", *map(str, arguments)]
    )


class RecordedStart:
    """Records the settings with which the operator would be started."""

    settings: Settings
    warnings: tuple[Diagnostic, ...]

    async def __call__(self, settings: Settings, warnings: tuple[Diagnostic, ...]) -> int:
        self.settings = settings
        self.warnings = warnings
        return 0


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> RecordedStart:
    made = RecordedStart()
    monkeypatch.setattr(module, "_run", made)
    return made


# Settings


def test_defaults_are_used_without_settings(recorded: RecordedStart) -> None:
    result = windlass()
    assert (result.exit_code, result.output) == (0, "")
    assert recorded.settings == Settings()


OTHER_VALUES: dict[str, tuple[str, Any]] = {
    "kube_client_qps": ("2.5", 2.5),
    "namespaces": ("team,lab", ("team", "lab")),
    "lease_duration_sec": ("30", 30),
    "lease_renew_deadline_sec": ("12.5", 12.5),
    "lease_retry_period_sec": ("0.5", 0.5),
    "lease_name": ("elsewhere", "elsewhere"),
    "lease_namespace": ("team", "team"),
    "metrics_address": ("off", "off"),
    "log_format": ("text", LogFormat.TEXT),
    "log_level": ("debug", "debug"),
    "crd_established_check_timeout_sec": ("70", 70),
    "object_local_cache_creation_timeout_sec": ("70", 70),
    "framework_max_retry_delay_sec_for_transient_conflict_failed": ("700", 700),
}


def other_value(setting: environment.Setting) -> tuple[str, Any]:
    """Return a value other than the default, as text and decoded."""
    if setting.attribute in OTHER_VALUES:
        return OTHER_VALUES[setting.attribute]
    if setting.is_boolean:
        return str(not setting.default).lower(), not setting.default
    return ("9", 9) if isinstance(setting.default, int | float) else ("other", "other")


def value_in(settings: Settings, setting: environment.Setting) -> Any:
    value: Any = msgspec.to_builtins(settings)
    if "." in setting.key:
        for key in setting.key.split("."):
            value = value.get(key, True)
        return value
    return getattr(settings, setting.attribute)


every_setting = pytest.mark.parametrize(
    "setting", [pytest.param(setting, id=setting.attribute) for setting in environment.SETTINGS]
)


@every_setting
def test_each_setting_has_a_flag(recorded: RecordedStart, setting: environment.Setting) -> None:
    text, value = other_value(setting)
    if setting.is_boolean:
        positive, _, negative = setting.flag_declaration.partition("/")
        arguments = [positive if value else negative]
    else:
        arguments = [setting.flag, text]
    result = windlass(*arguments)
    assert (result.exit_code, result.output) == (0, "")
    assert value_in(recorded.settings, setting) == value


@every_setting
def test_each_setting_has_a_variable(recorded: RecordedStart, setting: environment.Setting) -> None:
    text, value = other_value(setting)
    result = windlass(variables={setting.variable: text})
    assert (result.exit_code, result.output) == (0, "")
    assert value_in(recorded.settings, setting) == value


@pytest.mark.parametrize(
    ("arguments", "attribute", "value"),
    [
        (["--kubeconfig", "a"], "kube_config_file_path", "a"),
        (["--context", "b"], "kube_context", "b"),
        (["--namespace", "team"], "namespaces", ("team",)),
        (["-n", "team", "-n", "lab", "--namespaces", "a,b"], "namespaces", ("team", "lab", "a", "b")),
        (["--no-leader-election"], "leader_election", False),
        (["--manage-crds"], "manage_crds", True),
    ],
)
def test_common_flags(recorded: RecordedStart, arguments: list[str], attribute: str, value: Any) -> None:
    assert windlass(*arguments).exit_code == 0
    assert getattr(recorded.settings, attribute) == value


FLAG, VARIABLE, FILE = "flag", "variable", "file"


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], 200),
        ([FILE], 11),
        ([VARIABLE], 22),
        ([FLAG], 33),
        ([FILE, VARIABLE], 22),
        ([FILE, FLAG], 33),
        ([VARIABLE, FLAG], 33),
        ([FILE, VARIABLE, FLAG], 33),
    ],
)
@pytest.mark.parametrize("file_named_by", [FLAG, VARIABLE])
def test_flags_override_variables_and_variables_override_the_file(
    recorded: RecordedStart, tmp_path: Path, sources: list[str], expected: int, file_named_by: str
) -> None:
    config = tmp_path / "frameworkcontroller.yaml"
    config.write_text("leaseName: from-the-file\n" + ("workerNumber: 11\n" if FILE in sources else ""))
    arguments = ["--worker-number", "33"] if FLAG in sources else []
    variables = {"WINDLASS_WORKER_NUMBER": "22"} if VARIABLE in sources else {}
    if file_named_by == FLAG:
        arguments += ["--config", str(config)]
    else:
        variables[environment.CONFIGURATION_FILE] = str(config)
    result = windlass(*arguments, variables=variables)
    assert (result.exit_code, result.output) == (0, "")
    assert (recorded.settings.worker_number, recorded.settings.lease_name) == (expected, "from-the-file")


def test_variables_of_other_tools_have_the_lowest_precedence(recorded: RecordedStart, tmp_path: Path) -> None:
    variables = {"KUBECONFIG": "from-kubectl", "KUBE_APISERVER_ADDRESS": "http://other"}
    windlass(variables=variables)
    assert recorded.settings.kube_config_file_path == "from-kubectl"
    assert recorded.settings.kube_api_server_address == "http://other"
    config = tmp_path / "config.yaml"
    config.write_text("kubeConfigFilePath: from-the-file\n")
    windlass("--config", config, variables=variables)
    assert recorded.settings.kube_config_file_path == "from-the-file"


def test_misspelt_variable_is_a_warning(recorded: RecordedStart) -> None:
    assert windlass(variables={"WINDLASS_WORKER_NUMBERS": "3"}).exit_code == 0
    (warning,) = recorded.warnings
    assert "Did you mean WINDLASS_WORKER_NUMBER?" in str(warning)


# Invalid settings


def test_all_invalid_settings_are_reported_with_their_source(recorded: RecordedStart, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("workerNumber: 0\nleaseNam: x\nlogObjectSnapshot: {pod: {onPodDeletion: 3}}\n")
    result = windlass(
        "--config",
        config,
        "--lease-duration-sec",
        "2",
        "--log-format",
        "xml",
        "--namespace",
        "Team!",
        variables={"WINDLASS_REQUEST_TIMEOUT_SEC": "soon"},
    )
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    expected = [
        f"{config}:1:15: error: workerNumber: ",
        f"{config}:2:1: error: leaseNam: ",
        f"{config}:3:42: error: logObjectSnapshot.pod.onPodDeletion: ",
        "environment WINDLASS_REQUEST_TIMEOUT_SEC: error: requestTimeoutSec: ",
        "--log-format: error: logFormat: ",
        "--namespaces: error: namespaces[0]: ",
        "--lease-duration-sec: error: leaseDurationSec: ",
    ]
    missing = [start for start in expected if not any(line.startswith(start) for line in lines)]
    assert (missing, len(lines)) == ([], len(expected)), result.stderr
    assert not hasattr(recorded, "settings")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "/nowhere/config.yaml"], "cannot read /nowhere/config.yaml: No such file"),
        (["--config", "/"], "cannot read /: Is a directory"),
        (["--lease-retry-period-sec", "9.5"], "1.2 × leaseRetryPeriodSec < leaseRenewDeadlineSec"),
    ],
)
def test_single_invalid_setting_is_one_line(arguments: list[str], words: str) -> None:
    result = windlass(*arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert words in line


@pytest.mark.parametrize("arguments", [["--worker-numbers", "3"], ["now"]])
def test_invalid_usage_is_rejected(arguments: list[str]) -> None:
    result = windlass(*arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr


# Help


def test_help_shows_common_settings() -> None:
    result = windlass("--help")
    assert result.exit_code == 0
    for words in (
        "--config FILE",
        "--kubeconfig",
        "--context",
        "-n, --namespace",
        "--leader-election / --no-leader-election",
        "--manage-crds / --no-manage-crds",
        "--metrics-address",
        "--log-format",
    ):
        assert words in result.stdout, words
    assert "--framework-completed-retain-sec" not in result.stdout
    assert "docs/configuration.md" in result.stdout


def test_settings_in_help_exist() -> None:
    attributes = {setting.attribute for setting in environment.SETTINGS}
    assert set(module.HELP) | set(module.SHORT_FORMS) <= attributes


@pytest.mark.parametrize("arguments", [["--help"], ["controller", "--help"]])
def test_help_imports_no_slow_modules(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from windlass.cli.main import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        "heavy = ('aiohttp', 'prometheus_client', 'cryptography')\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in heavy))\n"
    )
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert run.stdout.splitlines()[-1] == "[]"


# Fatal errors


@pytest.fixture
def _restore_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("windlass")
    handlers, levels = tuple(root.handlers), (root.level, ours.level)
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.mark.usefixtures("_restore_logging")
def test_unexpected_exception_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ExceptionGroup("unhandled errors", [ZeroDivisionError("by zero")])

    monkeypatch.setattr("windlass.controller.operator.Operator.run", fail)
    result = windlass("--kube-api-server-address", "127.0.0.1:9", "--metrics-address", "off")
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = map(json.loads, result.stderr.splitlines())
    assert (line["level"], line["message"]) == ("error", "the controller failed")
    assert "ZeroDivisionError: by zero" in line["exception"]


# As a process


def process(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A process whose only information about a cluster are its flags."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in NO_VARIABLES and not name.startswith("KUBE")
    }
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "windlass.cli.main", "controller", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**variables, "HOME": str(folder)},
    )


def outcome(folder: Path, *arguments: str) -> tuple[int, str, str]:
    with process(folder, *arguments) as run:
        try:
            out, errors = run.communicate(timeout=PATIENCE_SECONDS)
        finally:
            run.kill()
    return run.returncode, out, errors


def test_missing_cluster_is_reported_with_the_places_searched(tmp_path: Path) -> None:
    code, out, errors = outcome(tmp_path)
    assert (code, out) == (3, "")
    (line,) = errors.splitlines()
    assert line.startswith("no cluster configured: ")
    assert str(tmp_path / ".kube" / "config") in line


def test_lease_timings_are_ignored_without_leader_election(tmp_path: Path) -> None:
    code, _, errors = outcome(tmp_path, "--no-leader-election", "--lease-retry-period-sec", "9.5")
    assert (code, len(errors.splitlines())) == (3, 1)


def test_missing_kubeconfig_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    code, out, errors = outcome(tmp_path, "--kubeconfig", str(missing))
    assert (code, out) == (3, "")
    (line,) = errors.splitlines()
    assert str(missing) in line


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, errors = outcome(
            tmp_path, "--kube-api-server-address", "127.0.0.1:9", "--metrics-address", f"127.0.0.1:{port}"
        )
    assert (code, out) == (1, "")
    (line,) = errors.splitlines()
    assert f"cannot serve /metrics, /healthz and /readyz on 127.0.0.1, port {port}" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_controller_can_be_stopped_while_it_waits_for_the_server(
    tmp_path: Path, number: signal.Signals
) -> None:
    with socket.socket() as unheard:
        # The port is bound without listening: connections are refused, and no other process gets the port.
        unheard.bind(("127.0.0.1", 0))
        with process(
            tmp_path,
            "--kube-api-server-address",
            f"127.0.0.1:{unheard.getsockname()[1]}",
            "--metrics-address",
            "off",
        ) as run:
            try:
                assert run.stderr is not None
                said = json.loads(run.stderr.readline())
                run.send_signal(number)
                _, errors = run.communicate(timeout=PATIENCE_SECONDS)
            finally:
                run.kill()
    assert (said["level"], said["message"].startswith("cannot acquire, renew or release the lease: ")) == (
        "warning",
        True,
    )
    assert run.returncode == 0
    assert "Traceback" not in errors


def test_warnings_are_logged(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("kubeClientBurst: 3\n")
    code, _, errors = outcome(tmp_path, "--config", str(config), "--log-format", "json")
    assert code == 3
    warning, *_ = errors.splitlines()
    assert json.loads(warning)["level"] == "warning"
    assert "kubeClientBurst" in json.loads(warning)["message"]


@pytest.mark.parametrize("is_installed", [True, False])
def test_uvloop_is_used_if_installed(monkeypatch: pytest.MonkeyPatch, is_installed: bool) -> None:
    loops: list[str] = []

    async def run(settings: Settings, warnings: tuple[Diagnostic, ...]) -> int:
        loops.append(type(asyncio.get_running_loop()).__module__)
        return 0

    monkeypatch.setattr(module, "_run", run)
    if not is_installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    assert windlass().exit_code == 0
    (loop,) = loops
    assert loop.startswith("uvloop") is is_installed
