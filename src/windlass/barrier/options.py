"""The options of the barrier, from its environment (statement 46 of docs/behaviours.md)."""

from collections.abc import Mapping

import msgspec

from windlass.model import names

INTERVAL = "BARRIER_CHECK_INTERVAL_SEC"
TIMEOUT = "BARRIER_CHECK_TIMEOUT_SEC"
CONFIGFILE = "BARRIER_CONFIGFILE"
DIGIT_LIMIT = 20
"""Numbers must have fewer digits than this; Python rejects numbers of thousands of digits."""


class InvalidOptionError(Exception):
    """An environment variable is missing or invalid."""


class Options(msgspec.Struct, frozen=True):
    namespace: str
    framework: str
    interval: int = 10
    timeout: int = 600
    gang: str = ""
    """Name of the Gang to wait for. Empty: read the Framework, as FrameworkController's barrier does."""
    attempt: str = ""
    """Instance UID of the attempt whose addresses are valid. Empty: any attempt."""
    pod_uid: str = ""
    """UID of this pod. A gang without this pod is outdated. Empty: not checked."""
    role: str = ""
    index: int = 0
    configfile: str = ""
    tf_config: str = ""

    @property
    def qualified_name(self) -> str:
        return f"{self.namespace}/{self.framework}"


def read(environment: Mapping[str, str], framework: str = "") -> Options:
    """Read the options. `framework`, if not empty, replaces the pod's own Framework; any attempt of another Framework
    is accepted. Raises InvalidOptionError."""
    variable = environment.get
    own_framework = variable(names.FRAMEWORK_NAME, "")
    required = {
        names.FRAMEWORK_NAMESPACE: variable(names.FRAMEWORK_NAMESPACE, ""),
        names.FRAMEWORK_NAME: framework or own_framework,
    }
    missing = [name for name, value in required.items() if not value]
    if missing:
        raise InvalidOptionError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set. The controller sets these "
            "variables in every container of a Framework. Run the barrier in such a container, or set them."
        )
    is_own = required[names.FRAMEWORK_NAME] == own_framework
    return Options(
        namespace=required[names.FRAMEWORK_NAMESPACE],
        framework=required[names.FRAMEWORK_NAME],
        interval=_integer(environment, INTERVAL, 10, 5, None),
        timeout=_integer(environment, TIMEOUT, 600, 60, 1200),
        gang=variable(names.GANG_VARIABLE, "") if is_own else "",
        attempt=variable(names.FRAMEWORK_ATTEMPT_INSTANCE_UID, "") if is_own else "",
        pod_uid=variable(names.POD_UID, "") if is_own else "",
        role=variable(names.TASKROLE_NAME, ""),
        index=_integer(environment, names.TASK_INDEX, 0, 0, None),
        configfile=variable(CONFIGFILE, ""),
        tf_config=variable("TF_CONFIG", "") if is_own else "",
    )


def _integer(
    environment: Mapping[str, str], name: str, default: int, minimum: int, maximum: int | None
) -> int:
    text = environment.get(name) or str(default)
    is_number = text.isascii() and text.isdecimal() and len(text) < DIGIT_LIMIT
    if not is_number or int(text) < minimum or (maximum is not None and int(text) > maximum):
        limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise InvalidOptionError(
            f"{name}: found {text[:DIGIT_LIMIT]!r}, expected an integer {limits}. Correct or remove it."
        )
    return int(text)
