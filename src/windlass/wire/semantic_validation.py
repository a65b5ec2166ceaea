"""A Framework that can be read and still makes no sense: what is wrong, said to its owner.

Only what keeps the controller from running it whatever the cluster is like. What the API server may refuse, such as the
content of a pod template, is not judged here. Called in each pass, so the good case is fast.
"""

import re

import msgspec

from windlass.model import names
from windlass.model.framework import MAX_TASK_NUMBER, Framework, TaskRoleSpec
from windlass.wire import annotation_checks, diagnostics

MAX_TASKS = 16_000
"""The status of so many running tasks takes some 1.5 MiB even when it is compressed, and that is what etcd stores. More
would be started, and then nothing could be written down about them any more."""
MAX_MESSAGE_LENGTH = 1000

_is_a_dns_label = re.compile(names.DNS_LABEL_PATTERN).fullmatch
_is_a_role_name = re.compile(names.ROLE_NAME_PATTERN).fullmatch


def semantic_error(framework: Framework) -> str:
    """Why it cannot be run, where, and what to do; empty if it can."""
    roles = framework.spec.task_roles
    makes_sense = (
        _is_a_dns_label(framework.name)
        and all(_is_a_role_name(role.name) and 0 <= role.task_number <= MAX_TASK_NUMBER for role in roles)
        and len({role.name for role in roles}) == len(roles)
        and sum(role.task_number for role in roles) <= MAX_TASKS
        and not (framework.metadata.annotations and annotation_checks.problems(framework))
    )
    if makes_sense:
        return ""
    message = " ".join(_problems(framework))
    return message if len(message) <= MAX_MESSAGE_LENGTH else message[: MAX_MESSAGE_LENGTH - 1] + "…"


def _problems(framework: Framework) -> list[str]:
    problems = []
    if not _is_a_dns_label(framework.name):
        problems.append(
            f"metadata.name: found {_quoted(framework.name)}, expected a DNS label of 1 to "
            f"{names.HOSTNAME_LIMIT} lower-case letters, digits and hyphens, with a letter or digit at both ends: "
            "pods are named after it. Create the Framework anew under such a name."
        )
    first: dict[str, int] = {}
    for index, role in enumerate(framework.spec.task_roles):
        problems += _problems_of_role(
            role, f"spec.taskRoles[{index}]", first.setdefault(role.name, index), index
        )
    tasks = sum(role.task_number for role in framework.spec.task_roles)
    if tasks > MAX_TASKS:
        problems.append(
            f"spec.taskRoles: found {tasks} tasks, expected at most {MAX_TASKS} in all roles together: the status of "
            "more cannot be stored. Divide them among several Frameworks."
        )
    return [*problems, *annotation_checks.problems(framework)]


def _problems_of_role(role: TaskRoleSpec, path: str, first: int, index: int) -> list[str]:
    problems = []
    if first != index:
        problems.append(
            f"{path}.name: found {_quoted(role.name)}, the name of spec.taskRoles[{first}] too. "
            "Give every role a name of its own."
        )
    if not _is_a_role_name(role.name):
        problems.append(
            f"{path}.name: found {_quoted(role.name)}, expected 1 to 63 lower-case letters and digits, without a "
            "hyphen: pods are called {framework}-{role}-{index}, and that has to stay readable."
        )
    if not 0 <= role.task_number <= MAX_TASK_NUMBER:
        problems.append(
            f"{path}.taskNumber: found {role.task_number}, expected 0 to {MAX_TASK_NUMBER}. Change the number."
        )
    return problems


def _quoted(name: str) -> str:
    """Odd characters show as what they are."""
    return msgspec.json.encode(diagnostics.truncate(name)).decode()
