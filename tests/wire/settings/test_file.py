"""Statements 19 and 51: the configuration file, its defaults and its errors."""

import contextlib
import textwrap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.model.completion import PERMANENT
from windlass.model.failures import ContainerPattern, FailureClass, IntRange, PodPattern
from windlass.model.settings import Address, LogFormat, LogLevel, Settings
from windlass.wire.diagnostics import InvalidFileError
from windlass.wire.settings import file as settings_file

SPEC = """\
podFailureSpec:
- code: 221
  phrase: OutOfSpace
  type:
    name: Failed
    attributes: [Permanent]
  podPatterns:
  - reasonRegex: "(?i)evicted"
    containers:
    - messageRegex: no space left
      codeRange: {max: 9}
    - signalRange: {min: 1, max: 9}
"""


def load(text: str) -> Settings:
    return settings_file.load_settings(text.encode(), "config.yaml")


def errors_of(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(InvalidFileError) as raised:
        load(text)
    assert {diagnostic.file for diagnostic in raised.value.diagnostics} == {"config.yaml"}
    return [(diagnostic.line, diagnostic.path, diagnostic.message) for diagnostic in raised.value.diagnostics]


@pytest.mark.parametrize("text", ["", "# all defaults\n", "---\n", "{}\n", "workerNumber: null\n"])
def test_empty_file_means_defaults(text: str) -> None:
    assert load(text) == Settings()


def test_values_are_read() -> None:
    text = """\
        kubeApiServerAddress: http://10.0.0.1:8080
        kubeClientQps: 12.5
        workerNumber: 500
        largeFrameworkCompression: false
        logObjectSnapshot:
          task: {onTaskRetry: false}
        """

    read = load(textwrap.dedent(text))

    assert read.kube_api_server_address == "http://10.0.0.1:8080"
    assert (read.kube_client_qps, read.worker_number, read.large_framework_compression) == (12.5, 500, False)
    assert read.log_object_snapshot.task.on_task_retry is False
    assert read.log_object_snapshot.task.on_task_deletion is True


TIMES = "leaseDurationSec: 3\nleaseRenewDeadlineSec: 2\nleaseRetryPeriodSec: 0.3\nrequestTimeoutSec: 2\n"
HURRIED = (
    "leaseDurationSec: 11\nleaseRenewDeadlineSec: 10.9\nleaseRetryPeriodSec: 5\nrequestTimeoutSec: 10.9\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            TIMES,
            Settings(
                lease_duration_sec=3,
                lease_renew_deadline_sec=2,
                lease_retry_period_sec=0.3,
                request_timeout_sec=2,
            ),
        ),
        # Without leader election, the lease is not checked.
        (
            "leaderElection: false\nrequestTimeoutSec: 60\nleaseDurationSec: 1\n",
            Settings(leader_election=False, request_timeout_sec=60, lease_duration_sec=1),
        ),
        (
            f"{HURRIED}leaderElection: false\n",
            Settings(
                leader_election=False,
                lease_duration_sec=11,
                lease_renew_deadline_sec=10.9,
                lease_retry_period_sec=5,
                request_timeout_sec=10.9,
            ),
        ),
        ("namespaces: [b, a, b]\n", Settings(namespaces=("b", "a"))),
        (
            "logFormat: text\nlogLevel: debug\n",
            Settings(log_format=LogFormat.TEXT, log_level=LogLevel.DEBUG),
        ),
        ("leaseName: a.b-c\nleaseNamespace: ''\n", Settings(lease_name="a.b-c")),
    ],
)
def test_consistent_values_are_accepted(text: str, expected: Settings) -> None:
    assert load(text) == expected


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        (":8080", Address("", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("localhost:65535", Address("localhost", 65535)),
        ("[::1]:9090", Address("::1", 9090)),
        ("off", None),
        ("", None),
    ],
)
def test_metrics_address(text: str, listener: Address | None) -> None:
    assert load(f"metricsAddress: '{text}'\n").metrics_listener == listener


@pytest.mark.parametrize(
    ("text", "qps", "burst"),
    [
        ("{}", 0, 1),
        ("kubeClientQps: 80\n", 80, 120),
        ("kubeClientQps: 0.1\n", 0.1, 1),
        ("kubeClientQps: 80\nkubeClientBurst: 100\n", 80, 100),
    ],
)
def test_rate_limit(text: str, qps: float, burst: int) -> None:
    read = load(text)

    assert (read.kube_client_qps, read.client_burst) == (qps, burst)


def test_failure_classes() -> None:
    """A range without a minimum is open, as in the reference."""
    assert load(SPEC).pod_failure_spec == (
        FailureClass(
            code=221,
            phrase="OutOfSpace",
            type=PERMANENT,
            pod_patterns=(
                PodPattern(
                    reason_regex="(?i)evicted",
                    containers=(
                        ContainerPattern(message_regex="no space left", code_range=IntRange(max=9)),
                        ContainerPattern(signal_range=IntRange(1, 9)),
                    ),
                ),
            ),
        ),
    )


def entry(old: str, new: str) -> str:
    assert SPEC.count(old) == 1, old
    return SPEC.replace(old, new)


BAD: list[Any] = [
    ("unknown key", "workerNumbr: 3\n", 1, "workerNumbr", 'unknown field "workerNumbr". Did you mean "workerNumber"?'),
    ("unknown nested key", "logObjectSnapshot:\n  pods: {}\n", 2, "logObjectSnapshot.pods", 'Did you mean "pod"?'),
    ("wrong type", "workerNumber: many\n", 1, "workerNumber", "an integer of at least 1"),
    ("out of range", "workerNumber: 0\n", 1, "workerNumber", "of at least 1"),
    ("not a mapping", "- 1\n", 1, "", "expected a mapping"),
    ("two documents", "{}\n---\nworkerNumber: 3\n", 3, "", "another document"),
    ("not YAML", "a: [\n", 1, "", "invalid YAML"),
    ("delays", "frameworkMaxRetryDelaySecForTransientConflictFailed: 5\n", 1,
     "frameworkMaxRetryDelaySecForTransientConflictFailed", "found 5, and frameworkMinRetryDelaySecForTransient"),
    ("shortest delay", "frameworkMinRetryDelaySecForTransientConflictFailed: 1000\n", 1,
     "frameworkMinRetryDelaySecForTransientConflictFailed", "ConflictFailed is 900 (the default): expected"),
    ("lease", "leaseDurationSec: 10\n", 1, "leaseDurationSec",
     "found 10, and leaseRenewDeadlineSec is 10 (the default): expected leaseRenewDeadlineSec < leaseDurationSec"),
    ("renewal", "leaseRetryPeriodSec: 10.5\n", 1, "leaseRetryPeriodSec", "found 10.5, and leaseRenewDeadlineSec is 10"),
    ("request timeout", "requestTimeoutSec: 10.01\n", 1, "requestTimeoutSec", "≤ leaseRenewDeadlineSec"),
    ("no time left for a request", HURRIED, 4, "requestTimeoutSec",
     "leaseRetryPeriodSec 5: expected requestTimeoutSec + 1.2 × leaseRetryPeriodSec ≤ leaseDurationSec"),
    ("no time left to renew", "leaseRetryPeriodSec: 8.5\n", 1, "leaseRetryPeriodSec",
     "expected 1.2 × leaseRetryPeriodSec < leaseRenewDeadlineSec"),
    ("no time", "leaseRetryPeriodSec: 0\n", 1, "leaseRetryPeriodSec", "a number of at least 0.1"),
    ("part of a second", "leaseDurationSec: 15.5\n", 1, "leaseDurationSec", "an integer of at least 1"),
    ("unquoted off", "metricsAddress: off\n", 1, "metricsAddress", "expected a string: put it in quotes"),
    ("no port", "metricsAddress: localhost\n", 1, "metricsAddress", "host:port, [v6]:port, :port"),
    ("port too high", "metricsAddress: ':65536'\n", 1, "metricsAddress", "host:port"),
    ("bare v6", "metricsAddress: '::1:8080'\n", 1, "metricsAddress", "host:port"),
    ("log format", "logFormat: xml\n", 1, "logFormat", "one of json, text"),
    ("log level", "logLevel: warn\n", 1, "logLevel", 'Did you mean "warning"?'),
    ("namespace", "namespaces: [team-a, Team_B]\n", 1, "namespaces[1]", 'found the string "Team_B"'),
    ("lease name", "leaseName: Windlass\n", 1, "leaseName", "lower-case letters, digits, hyphens and dots"),
    ("lease namespace", "leaseNamespace: a.b\n", 1, "leaseNamespace", "the name of a namespace"),
    ("no code", entry("- code: 221\n  phrase", "- phrase"), 2, "podFailureSpec[0]", 'missing required field "code"'),
    ("reserved negative code", entry("221", "-999"), 2, "podFailureSpec[0].code", "-999 to 0 and 200 to 219"),
    ("reserved zero", entry("221", "0"), 2, "podFailureSpec[0].code", "reserved"),
    ("reserved positive code", entry("221", "219"), 2, "podFailureSpec[0].code", "reserved"),
    ("duplicate code", SPEC + SPEC.removeprefix("podFailureSpec:\n"), 13, "podFailureSpec[1].code",
     "of the entry in line 2"),
    ("type Succeeded", entry("name: Failed", "name: Succeeded"), 5, "podFailureSpec[0].type.name", "expected Failed"),
    ("unknown type", entry("name: Failed", "name: Broken"), 5, "podFailureSpec[0].type.name", "one of Succeeded"),
    ("no patterns", "podFailureSpec:\n- code: 221\n", 2, "podFailureSpec[0]", '"podPatterns"'),
    ("empty patterns", "podFailureSpec:\n- {code: 221, podPatterns: []}\n", 2, "podFailureSpec[0]", '"podPatterns"'),
    ("expression", entry('"(?i)evicted"', '"(evicted"'), 8, "podFailureSpec[0].podPatterns[0].reasonRegex", "RE2"),
    ("lookahead", entry("no space left", "'(?=space)'"), 10,
     "podFailureSpec[0].podPatterns[0].containers[0].messageRegex", "RE2"),
    ("range", entry("{min: 1, max: 9}", "{min: 10, max: 9}"), 12,
     "podFailureSpec[0].podPatterns[0].containers[1].signalRange", "from 10 to 9"),
    ("range of codes", entry("{max: 9}", "{min: 1, max: 0}"), 11,
     "podFailureSpec[0].podPatterns[0].containers[0].codeRange", "from 1 to 0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "path", "words"), [pytest.param(*row[1:], id=row[0]) for row in BAD]
)
def test_one_mistake_is_one_error(text: str, line: int, path: str, words: str) -> None:
    ((found_line, found_path, message),) = errors_of(text)

    assert (found_line, found_path) == (line, path)
    assert words in message


def test_all_errors_are_reported() -> None:
    text = entry("221", "5").replace("phrase", "phrse") + "workerNumber: 0\n"

    assert [line for line, _, _ in errors_of(text)] == [3, 13]


@settings(deadline=None)
@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from([*SPEC.splitlines(keepends=True), "\n", "a: 1\n", "  - 1\n"]), max_size=12
    ).map(lambda lines: "".join(lines).encode())
)
def test_any_bytes_give_settings_or_errors(data: bytes) -> None:
    with contextlib.suppress(InvalidFileError):
        assert isinstance(settings_file.load_settings(data, "config.yaml"), Settings)
