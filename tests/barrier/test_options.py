"""Statement 46: the options of the barrier in its environment, and errors about invalid ones."""

import pytest

from windlass.barrier import options
from windlass.barrier.options import InvalidOptionError, Options

OWN = {"FC_FRAMEWORK_NAMESPACE": "research", "FC_FRAMEWORK_NAME": "digits"}
ALL = {
    **OWN,
    "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": "0_cm",
    "FC_POD_UID": "pod",
    "FC_TASKROLE_NAME": "worker",
    "FC_TASK_INDEX": "3",
    "WINDLASS_GANG": "digits-cm",
    "BARRIER_CHECK_INTERVAL_SEC": "5",
    "BARRIER_CHECK_TIMEOUT_SEC": "1200",
    "BARRIER_CONFIGFILE": "configfile",
    "TF_CONFIG": "{}",
}


def test_defaults() -> None:
    assert options.read(OWN) == Options("research", "digits", interval=10, timeout=600)


def test_all_options_are_read() -> None:
    assert options.read(ALL) == Options(
        "research",
        "digits",
        interval=5,
        timeout=1200,
        gang="digits-cm",
        attempt="0_cm",
        pod_uid="pod",
        role="worker",
        index=3,
        configfile="configfile",
        tf_config="{}",
    )


def test_another_framework_replaces_the_own() -> None:
    """Any of its attempts is accepted, because our pod is not in it."""
    read = options.read(ALL, "other")
    assert read.framework == "other"
    assert (read.gang, read.attempt, read.pod_uid, read.tf_config) == ("", "", "", "")


def test_own_framework_by_name_keeps_the_identity() -> None:
    assert options.read(ALL, "digits") == options.read(ALL)


def test_another_framework_outside_a_pod() -> None:
    read = options.read({"FC_FRAMEWORK_NAMESPACE": "research"}, "other")
    assert read.qualified_name == "research/other"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "FC_FRAMEWORK_NAMESPACE and FC_FRAMEWORK_NAME are not set"),
        ({"FC_FRAMEWORK_NAMESPACE": "research"}, "FC_FRAMEWORK_NAME is not set"),
        ({**OWN, "FC_FRAMEWORK_NAME": ""}, "FC_FRAMEWORK_NAME is not set"),
        ({**OWN, "FC_FRAMEWORK_NAMESPACE": ""}, "FC_FRAMEWORK_NAMESPACE is not set"),
    ],
)
def test_missing_identity_is_an_error(environment: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        options.read(environment)


INTERVAL, TIMEOUT = "BARRIER_CHECK_INTERVAL_SEC", "BARRIER_CHECK_TIMEOUT_SEC"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (INTERVAL, "4"),
        (INTERVAL, "0"),
        (INTERVAL, "-5"),
        (INTERVAL, "+5"),
        (INTERVAL, "5.0"),
        (INTERVAL, " 5"),
        (INTERVAL, "5s"),
        (INTERVAL, "٥٥"),
        (INTERVAL, "9" * 5000),
        (TIMEOUT, "59"),
        (TIMEOUT, "1201"),
        (TIMEOUT, "ten minutes"),
        (TIMEOUT, "1e3"),
        ("FC_TASK_INDEX", "first"),
        ("FC_TASK_INDEX", "-1"),
    ],
)
def test_invalid_values_are_rejected(name: str, value: str) -> None:
    """The error names the variable, its value, and the expected values."""
    with pytest.raises(InvalidOptionError) as caught:
        options.read({**OWN, name: value})
    message = str(caught.value)
    assert message.startswith(f"{name}: found ")
    assert "expected an integer" in message
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        (INTERVAL, "5", "interval", 5),
        (INTERVAL, "100000", "interval", 100000),
        (INTERVAL, "", "interval", 10),
        (INTERVAL, "007", "interval", 7),
        (TIMEOUT, "60", "timeout", 60),
        (TIMEOUT, "1200", "timeout", 1200),
        (TIMEOUT, "", "timeout", 600),
        ("FC_TASK_INDEX", "9999", "index", 9999),
    ],
)
def test_valid_values_are_accepted(name: str, value: str, attribute: str, expected: int) -> None:
    assert getattr(options.read({**OWN, name: value}), attribute) == expected
