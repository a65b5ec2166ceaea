"""Settings from the environment and from flags: names, parsing and precedence."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.model.settings import LogFormat, LogFrameworkSnapshot, LogObjectSnapshot, Settings
from windlass.wire.diagnostics import InvalidFileError
from windlass.wire.settings import environment
from windlass.wire.settings import file as settings_file

FILE = "config.yaml"


def load(
    text: str = "", variables: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    return settings_file.load((text.encode(), FILE), variables or {}, flags or {}).settings


def error_lines(text: str, variables: Mapping[str, str], flags: Mapping[str, Any]) -> list[str]:
    with pytest.raises(InvalidFileError) as raised:
        load(text, variables, flags)
    return [str(diagnostic) for diagnostic in raised.value.diagnostics]


@pytest.mark.parametrize(
    ("key", "variable", "flags"),
    [
        ("kubeApiServerAddress", "WINDLASS_KUBE_API_SERVER_ADDRESS", "--kube-api-server-address"),
        ("leaseDurationSec", "WINDLASS_LEASE_DURATION_SEC", "--lease-duration-sec"),
        ("manageCrds", "WINDLASS_MANAGE_CRDS", "--manage-crds/--no-manage-crds"),
        (
            "logObjectSnapshot.framework.onFrameworkRetry",
            "WINDLASS_LOG_OBJECT_SNAPSHOT_FRAMEWORK_ON_FRAMEWORK_RETRY",
            "--log-object-snapshot-framework-on-framework-retry/--no-log-object-snapshot-framework-on-framework-retry",
        ),
    ],
)
def test_names_of_variable_and_flags(key: str, variable: str, flags: str) -> None:
    (setting,) = [setting for setting in environment.SETTINGS if setting.key == key]

    assert (setting.variable, setting.flag_declaration) == (variable, flags)


def test_every_setting_except_failure_classes_has_a_variable() -> None:
    at_the_top = {setting.key.partition(".")[0] for setting in environment.SETTINGS}

    assert set(Settings.__struct_encode_fields__) - at_the_top == {"podFailureSpec"}
    assert len({setting.variable for setting in environment.SETTINGS}) == len(environment.SETTINGS)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WINDLASS_WORKER_NUMBER": "7"}, Settings(worker_number=7)),
        ({"WINDLASS_WORKER_NUMBER": " 7\n"}, Settings(worker_number=7)),
        ({"WINDLASS_KUBE_CLIENT_QPS": "12.5"}, Settings(kube_client_qps=12.5)),
        ({"WINDLASS_LEADER_ELECTION": "false"}, Settings(leader_election=False)),
        ({"WINDLASS_MANAGE_CRDS": "True"}, Settings(manage_crds=True)),
        ({"WINDLASS_NAMESPACES": "a, b,,c,"}, Settings(namespaces=("a", "b", "c"))),
        ({"WINDLASS_LOG_FORMAT": "text"}, Settings(log_format=LogFormat.TEXT)),
        ({"WINDLASS_METRICS_ADDRESS": "off"}, Settings(metrics_address="off")),
        ({"WINDLASS_KUBE_CONTEXT": "123"}, Settings(kube_context="123")),
        (
            {"WINDLASS_LOG_OBJECT_SNAPSHOT_FRAMEWORK_ON_FRAMEWORK_RETRY": "no"},
            Settings(log_object_snapshot=LogObjectSnapshot(LogFrameworkSnapshot(on_framework_retry=False))),
        ),
        # An empty variable counts as unset.
        ({"WINDLASS_WORKER_NUMBER": "", "WINDLASS_METRICS_ADDRESS": " "}, Settings()),
        ({"KUBECONFIG": "", "KUBE_APISERVER_ADDRESS": ""}, Settings()),
        ({"KUBECONFIG": "k.yaml"}, Settings(kube_config_file_path="k.yaml")),
        ({"KUBE_APISERVER_ADDRESS": "http://a:80"}, Settings(kube_api_server_address="http://a:80")),
        ({"PATH": "/bin", "WORKER_NUMBER": "3"}, Settings()),
    ],
)
def test_variables_are_parsed(variables: dict[str, str], expected: Settings) -> None:
    assert settings_file.load(None, variables, {}) == (expected, ())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"worker_number": 7}, Settings(worker_number=7)),
        ({"worker_number": "7"}, Settings(worker_number=7)),
        ({"worker_number": None, "namespaces": ()}, Settings()),
        ({"namespaces": ("a", "b,c")}, Settings(namespaces=("a", "b", "c"))),
        ({"namespaces": "a,b"}, Settings(namespaces=("a", "b"))),
        ({"events": False, "manage_crds": True}, Settings(events=False, manage_crds=True)),
        ({"metrics_address": ""}, Settings(metrics_address="")),
        ({"kube_client_qps": 0.5}, Settings(kube_client_qps=0.5)),
    ],
)
def test_flags_are_parsed(flags: dict[str, Any], expected: Settings) -> None:
    assert load(flags=flags) == expected


WORKERS = "workerNumber: 1\n"
KUBECONFIG = "kubeConfigFilePath: file\n"
SNAPSHOTS = "logObjectSnapshot:\n  framework: {onFrameworkRetry: false, onFrameworkDeletion: false}\n"


@pytest.mark.parametrize(
    ("text", "variables", "flags", "expected"),
    [
        (WORKERS, {}, {}, Settings(worker_number=1)),
        (WORKERS, {"WINDLASS_WORKER_NUMBER": "2"}, {}, Settings(worker_number=2)),
        (WORKERS, {"WINDLASS_WORKER_NUMBER": "2"}, {"worker_number": 3}, Settings(worker_number=3)),
        (WORKERS, {"WINDLASS_WORKER_NUMBER": ""}, {"worker_number": None}, Settings(worker_number=1)),
        (KUBECONFIG, {"KUBECONFIG": "variable"}, {}, Settings(kube_config_file_path="file")),
        ("kubeConfigFilePath: null\n", {"KUBECONFIG": "variable"}, {}, Settings(kube_config_file_path="variable")),
        (KUBECONFIG, {"WINDLASS_KUBE_CONFIG_FILE_PATH": "ours"}, {}, Settings(kube_config_file_path="ours")),
        ("namespaces: [a]\n", {"WINDLASS_NAMESPACES": "b"}, {}, Settings(namespaces=("b",))),
        (
            SNAPSHOTS,
            {"WINDLASS_LOG_OBJECT_SNAPSHOT_FRAMEWORK_ON_FRAMEWORK_RETRY": "true"},
            {},
            Settings(log_object_snapshot=LogObjectSnapshot(LogFrameworkSnapshot(on_framework_deletion=False))),
        ),
        # Valid together, but not each with the defaults.
        (
            "leaseDurationSec: 3\n",
            {"WINDLASS_LEASE_RENEW_DEADLINE_SEC": "2.5"},
            {"lease_retry_period_sec": "0.5", "request_timeout_sec": "2"},
            Settings(
                lease_duration_sec=3, lease_renew_deadline_sec=2.5, lease_retry_period_sec=0.5, request_timeout_sec=2
            ),
        ),
    ],
)  # fmt: skip
def test_precedence_of_sources(
    text: str, variables: dict[str, str], flags: dict[str, Any], expected: Settings
) -> None:
    assert load(text, variables, flags) == expected


AN_INTEGER = "expected an integer of at least 1"
BAD: list[Any] = [
    ("not a number", "", {"WINDLASS_WORKER_NUMBER": "many"}, {},
     [("environment WINDLASS_WORKER_NUMBER", f'workerNumber: found the string "many", {AN_INTEGER}')]),
    ("out of range", "", {"WINDLASS_WORKER_NUMBER": "0"}, {},
     [("environment WINDLASS_WORKER_NUMBER", f"workerNumber: found the number 0, {AN_INTEGER}")]),
    ("endless", "", {"WINDLASS_KUBE_CLIENT_QPS": ".inf"}, {},
     [("environment WINDLASS_KUBE_CLIENT_QPS", 'kubeClientQps: found the string ".inf", expected a number')]),
    ("endless flag", "", {}, {"kube_client_qps": float("inf")},
     [("--kube-client-qps", 'kubeClientQps: found the string "inf", expected a number of at least 0')]),
    ("not a boolean", "", {"WINDLASS_EVENTS": "2"}, {},
     [("environment WINDLASS_EVENTS", "events: found the number 2, expected true or false")]),
    ("nested", "", {"WINDLASS_LOG_OBJECT_SNAPSHOT_POD_ON_POD_DELETION": "maybe"}, {},
     [("environment WINDLASS_LOG_OBJECT_SNAPSHOT_POD_ON_POD_DELETION",
       'logObjectSnapshot.pod.onPodDeletion: found the string "maybe", expected true or false')]),
    ("item of a list", "", {}, {"namespaces": ("a", "B")},
     [("--namespaces", 'namespaces[1]: found the string "B", expected a DNS label')]),
    ("empty flag", "", {}, {"worker_number": ""},
     [("--worker-number", f'workerNumber: found the string "", {AN_INTEGER}')]),
    ("one of each", "workerNumber: 0\n", {"WINDLASS_LOG_LEVEL": "loud"}, {"metrics_address": "8080"},
     [("config.yaml:1:15", f"workerNumber: found the number 0, {AN_INTEGER}"),
      ("environment WINDLASS_LOG_LEVEL", 'logLevel: found the string "loud", expected one of debug, info'),
      ("--metrics-address", 'metricsAddress: found the string "8080", expected host:port')]),
    ("two with one message", "", {"WINDLASS_EVENTS": "x", "WINDLASS_MANAGE_CRDS": "x"}, {},
     [("environment WINDLASS_MANAGE_CRDS", 'manageCrds: found the string "x", expected true or false'),
      ("environment WINDLASS_EVENTS", 'events: found the string "x", expected true or false')]),
    ("does not fit the default", "", {"WINDLASS_LEASE_DURATION_SEC": "3"}, {},
     [("environment WINDLASS_LEASE_DURATION_SEC",
       "leaseDurationSec: found 3, and leaseRenewDeadlineSec is 10 (the default): expected leaseRenewDeadlineSec <")]),
    ("does not fit the file", "leaseDurationSec: 20\n", {}, {"lease_renew_deadline_sec": 30},
     [("--lease-renew-deadline-sec",
       "leaseRenewDeadlineSec: found 30, and leaseDurationSec is 20 (config.yaml:1): expected")]),
    ("does not fit a variable", "", {"WINDLASS_REQUEST_TIMEOUT_SEC": "9"}, {"lease_renew_deadline_sec": 8},
     [("--lease-renew-deadline-sec",
       "leaseRenewDeadlineSec: found 8, and requestTimeoutSec is 9 (environment WINDLASS_REQUEST_TIMEOUT_SEC):")]),
    ("faulty below another", "workerNumber: no\n", {"WINDLASS_WORKER_NUMBER": "3"}, {},
     [("config.yaml:1:15", f"workerNumber: found the boolean false, {AN_INTEGER}")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "variables", "flags", "expected"), [pytest.param(*row[1:], id=row[0]) for row in BAD]
)
def test_error_names_the_source_of_the_value(
    text: str, variables: dict[str, str], flags: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    for line, (where, beginning) in zip(error_lines(text, variables, flags), expected, strict=True):
        assert line.startswith(f"{where}: error: {beginning}")


UNKNOWN = "unknown setting: the variable is ignored."
NO_LIMIT = "kubeClientBurst: no effect while kubeClientQps is 0 (no limit)"


@pytest.mark.parametrize(
    ("text", "variables", "where", "message"),
    [
        ("", {"WINDLASS_WORKER_NUMBR": "3"}, "environment WINDLASS_WORKER_NUMBR",
         f"{UNKNOWN} Did you mean WINDLASS_WORKER_NUMBER?"),
        ("", {"WINDLASS_XYZZY": "3"}, "environment WINDLASS_XYZZY", f"{UNKNOWN} No setting has a similar name."),
        ("", {"WINDLASS_KUBE_CLIENT_BURST": "3"}, "environment WINDLASS_KUBE_CLIENT_BURST", NO_LIMIT),
        ("kubeClientBurst: 120\n", {}, "config.yaml:1:18", NO_LIMIT),
    ],
)  # fmt: skip
def test_ignored_variable_or_setting_is_a_warning(
    text: str, variables: dict[str, str], where: str, message: str
) -> None:
    _, warnings = settings_file.load((text.encode(), FILE), variables, {})

    assert [str(warning) for warning in warnings] == [f"{where}: warning: {message}"]


@pytest.mark.parametrize(
    "name",
    [
        "WINDLASS_CONFIG",
        "WINDLASS_SERVICE_HOST",
        "WINDLASS_CONTROLLER_SERVICE_PORT",
        "WINDLASS_CONTROLLER_SERVICE_PORT_METRICS",
        "WINDLASS_PORT",
        "WINDLASS_CONTROLLER_PORT_8080_TCP",
        "WINDLASS_CONTROLLER_PORT_8080_TCP_ADDR",
        "KUBERNETES_SERVICE_HOST",
    ],
)
def test_variable_of_a_service_is_ignored_without_warning(name: str) -> None:
    assert settings_file.load(None, {name: "tcp://10.0.0.1:8080"}, {}) == (Settings(), ())


def test_unknown_flag_raises_key_error() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        load(flags={"nonsense": 1})


ODD_TEXTS = ("", "1", "-1", "1e3", "0.5", "true", "off", "a,b", ".nan", "null", "json", ":1")
texts_of_settings = st.dictionaries(
    st.sampled_from(tuple(setting.attribute for setting in environment.SETTINGS)),
    st.sampled_from(ODD_TEXTS) | st.text(max_size=8),
    max_size=5,
)


@given(texts_of_settings, texts_of_settings)
def test_any_text_gives_settings_or_errors_with_a_source(
    by_variable: dict[str, str], flags: dict[str, str]
) -> None:
    variables = {
        setting.variable: by_variable[setting.attribute]
        for setting in environment.SETTINGS
        if setting.attribute in by_variable
    }
    known = {setting.flag for setting in environment.SETTINGS} | {f"environment {name}" for name in variables}
    try:
        read = settings_file.load(None, variables, flags).settings
    except InvalidFileError as raised:
        found = {diagnostic.file for diagnostic in raised.diagnostics}
    else:
        found = set()
        assert msgspec.convert(msgspec.to_builtins(read), Settings) == read
    assert found <= known
