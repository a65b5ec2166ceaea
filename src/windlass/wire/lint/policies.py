"""Lint completion and retry policies: whether the job ends as its author intended.

All diagnostics are warnings, because such a Framework can run. Whether a program exits is a guess from its command, its
role's name and the runtime, so only clear cases are reported.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from windlass.model import names, role_names
from windlass.model.feature_annotations import Features
from windlass.model.framework import ALWAYS_RETRY, RETRY_IF_FAILED
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Fix, Remedy, Rule
from windlass.wire.lint import annotations, ports
from windlass.wire.yaml import tree

_PS = "ps"
_SERVERS_BY_NAME = frozenset({"jupyter", "notebook", "tensorboard"})
# The regular expressions below are rarely needed, so they are not compiled at import.
_ENDLESS_WORDS = ("sleep", "tail", "tensorboard", "jupyter", "tf-server")
_ENDLESS = (
    r"(?<![\w./-])(?:"
    r"sleep\s+inf(?:inity)?"
    r"|tail\s+(?:-f|-F|--follow)\s+/dev/null"
    r"|while\s+(?:true|:)\s*;\s*do\s+sleep\s+\S+\s*;?\s*done"
    r"|(?:\S*/)?tensorboard(?=\s+-)|tensorboard\.main"
    r"|(?:\S*/)?jupyter[ -](?:lab|notebook|server)"
    r"|windlass\s+tf-server"
    r")(?![\w.])"
)
_NEXT_COMMAND = r"&&|\|\||[;\n|]|(?<![>&])&"
_PYTHON = r"\bpython|\.py\b"
"""A role named like a parameter server counts as one only if it runs Python."""
_PORT_VARIABLE = r"\bFB_[A-Z0-9]+_PORT=|\b\w+_port="
_BARRIERS = ("frameworkbarrier", "get_ips.sh")
"""Names of programs in init containers that wait for addresses."""
_NODE_PATHS = ("/dev", "/etc", "/lib", "/proc", "/run", "/sys", "/tmp", "/usr", "/var/run")  # noqa: S108
"""Host paths that are specific to the node: devices, drivers, sockets, the time zone, scratch space."""
_MAX_COMMAND_LENGTH = 20_000


class _Role(msgspec.Struct, frozen=True):
    node: tree.Mapping
    path: str
    features: Features

    @property
    def name(self) -> str:
        return tree.text_of(self.node.get("name")) or ""

    @property
    def tasks(self) -> int:
        return _number(self.node.get("taskNumber"))

    @property
    def pod(self) -> tree.Node | None:
        return tree.dig(self.node, "task", "pod", "spec")

    def policy_field(self, field: str) -> tree.Node | None:
        return tree.dig(self.node, "frameworkAttemptCompletionPolicy", field)

    @property
    def decides_success(self) -> bool:
        return _number(self.policy_field("minSucceededTaskCount")) > 0


class _Endless(msgspec.Struct, frozen=True):
    """The reason why the tasks of a role never exit."""

    reason: str
    remedy: str = ""
    """Advice on how to make the tasks exit; empty if they should not."""
    is_intended: bool = True


def check(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Check a Framework at `path` of its document."""
    spec_path = diagnostics.field(path, "spec")
    features = annotations.requested_features_of(framework)
    roles = tuple(
        _Role(node, role_path, features)
        for node, role_path in ports.roles_of(framework, path)
        if isinstance(node, tree.Mapping)
    )
    for role in roles:
        yield from _check_count(role, "minFailedTaskCount", "failed", Rule.MIN_FAILED_TOO_LARGE)
        yield from _check_count(role, "minSucceededTaskCount", "succeeded", Rule.MIN_SUCCEEDED_TOO_LARGE)
        yield from _check_user_barrier(framework, role)
    yield from _check_endings(roles, has_success_rule=_has_success_rule(framework))
    yield from _check_tasks(framework, roles, f"{spec_path}.taskRoles")
    yield from _check_retries(framework, f"{spec_path}.retryPolicy")
    yield from _check_host_paths(roles)


def _check_count(role: _Role, field: str, result: str, rule: Rule) -> Iterator[Diagnostic]:
    node = role.policy_field(field)
    count = _number(node)
    if node is None or not 0 < role.tasks < count:
        return
    tasks = "1 task" if role.tasks == 1 else f"{role.tasks} tasks"
    message = (
        f"found {count}, but the role has only {tasks}: so {result} tasks of this role never end the job. "
        f"Use {role.tasks} for all tasks, or -1 if the role should not decide"
    )
    where = f"{role.path}.frameworkAttemptCompletionPolicy.{field}"
    yield diagnostics.warning(node, where, message, rule, Fix(Remedy.REPLACE, str(role.tasks)))


def _has_success_rule(framework: tree.Mapping) -> bool:
    rules = tree.items_of(tree.dig(framework, "spec", "completionPolicies"))
    fields = ("allSucceeded", "minSucceededTaskCount")
    return any(tree.dig(rule, field) is not None for rule in rules for field in fields)


def _check_endings(roles: Sequence[_Role], *, has_success_rule: bool) -> Iterator[Diagnostic]:
    """Warn about tasks that never exit although the job waits for them.

    An attempt completes by the policy of a role, or when all tasks have completed.
    """
    working = [role for role in roles if role.tasks > 0 and role.pod is not None]
    endless = {role.path: why for role in working if (why := _endless_reason(role)) is not None}
    for role in working:
        if role.path in endless and role.decides_success:
            yield _never_succeeds(role, endless[role.path])
    has_deciding_role = any(role.decides_success for role in working) or has_success_rule
    is_service = all(role.path in endless and endless[role.path].is_intended for role in working)
    if has_deciding_role or is_service:
        return
    for role in working:
        if role.path in endless:
            yield _never_completes(role, endless[role.path])


def _never_succeeds(role: _Role, why: _Endless) -> Diagnostic:
    field = "frameworkAttemptCompletionPolicy.minSucceededTaskCount"
    return diagnostics.warning(
        role.policy_field("minSucceededTaskCount") or role.node,
        f"{role.path}.{field}",
        f"the job waits for tasks of this role to succeed, but they never exit: {why.reason}. "
        f"{why.remedy or 'Use -1, and let the role that does the work decide'}",
        Rule.NEVER_EXITS,
    )


def _never_completes(role: _Role, why: _Endless) -> Diagnostic:
    return diagnostics.warning(
        role.node.get("name") or role.node,
        f"{role.path}.name",
        "no role decides when the job succeeds, so it waits for all tasks, and those of this role never exit: "
        f"{why.reason}. {why.remedy or 'Set minSucceededTaskCount of the role that does the work'}",
        Rule.NEVER_EXITS,
    )


def _endless_reason(role: _Role) -> _Endless | None:
    policy = tree.dig(role.pod, "restartPolicy")
    if policy is None:
        reason = "without a restartPolicy, Kubernetes restarts every container that exits"
        return _Endless(reason, "Set restartPolicy: Never in the pod spec", is_intended=False)
    if tree.text_of(policy) == "Always":
        reason = "restartPolicy: Always restarts every container that exits"
        return _Endless(reason, "Set restartPolicy: Never in the pod spec")
    if _number(tree.dig(role.node, "task", "retryPolicy", "maxRetryCount")) == ALWAYS_RETRY:
        reason = f"with maxRetryCount {ALWAYS_RETRY} a task is retried even after success"
        return _Endless(reason, f"Use {RETRY_IF_FAILED} to retry failures without limit")
    reason = _endless_program(role)
    return _Endless(reason) if reason else None


def _endless_program(role: _Role) -> str:
    """Return why a container of the role never exits; empty if none is known to be endless."""
    is_parameter_server = role_names.type_of(role.name) == _PS
    for index, container in enumerate(tree.items_of(tree.dig(role.pod, "containers"))):
        words = _words(container)
        text = " ".join(words)[:_MAX_COMMAND_LENGTH]
        command = _endless_command(text)
        if command:
            name = diagnostics.quoted(tree.text_of(tree.dig(container, "name")) or "")
            return f'"{diagnostics.truncate(command)}" in container {name} runs until it is stopped'
        if index == 0 and not words and role.features.is_idle_server(role.name):
            return "an idle TensorFlow server runs until it is stopped"
        if index == 0 and not words and role.name in _SERVERS_BY_NAME:
            return f"a {role.name} server runs until it is stopped"
        if is_parameter_server and re.search(_PYTHON, text):
            return "a parameter server runs until it is stopped"
    return ""


def _endless_command(text: str) -> str:
    """Return the first endless command that does not run in the background; empty if there is none."""
    if not any(word in text for word in _ENDLESS_WORDS):
        return ""
    for found in re.finditer(_ENDLESS, text):
        following = re.search(_NEXT_COMMAND, text[found.end() :])
        is_in_background = following is not None and following[0] == "&"
        if not is_in_background:
            return found[0]
    return ""


def _check_tasks(framework: tree.Mapping, roles: Sequence[_Role], path: str) -> Iterator[Diagnostic]:
    if roles and all(role.tasks == 0 and _is_zero(role.node.get("taskNumber")) for role in roles):
        message = (
            "no role has tasks: nothing runs until the Framework is scaled. Set taskNumber to at least 1"
        )
        yield diagnostics.warning(
            tree.dig(framework, "spec", "taskRoles") or framework, path, message, Rule.NO_TASKS
        )
        return
    deciding = [role for role in roles if role.decides_success]
    if deciding and all(_is_zero(role.node.get("taskNumber")) for role in deciding):
        for role in deciding:
            message = (
                "no role that decides when the job succeeds has tasks: the job completes when all tasks of the other "
                "roles have completed, with any result. Set taskNumber to at least 1"
            )
            at = role.node.get("taskNumber") or role.node
            yield diagnostics.warning(at, f"{role.path}.taskNumber", message, Rule.NO_TASKS)


def _check_retries(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    node = tree.dig(framework, "spec", "retryPolicy", "maxRetryCount")
    if node is not None and _number(node) == ALWAYS_RETRY:
        message = (
            f"found {ALWAYS_RETRY}, with which the job is retried even after success, and never ends. "
            f"Use {RETRY_IF_FAILED} to retry failures without limit, or set a maximum"
        )
        yield diagnostics.warning(node, f"{path}.maxRetryCount", message, Rule.ENDLESS_RETRY)


def _check_user_barrier(framework: tree.Mapping, role: _Role) -> Iterator[Diagnostic]:
    """Warn about a role with a barrier of the user but without ports. `annotations` checks barriers of Windlass."""
    init_containers = tree.items_of(tree.dig(role.pod, "initContainers"))
    has_barrier = any(
        known in text
        for container in init_containers
        for text in (tree.text_of(tree.dig(container, "image")) or "", *_words(container))
        for known in _BARRIERS
    )
    is_requested = any(
        tree.dig(framework, "metadata", "annotations", name) is not None
        for name in (names.RUNTIME_ANNOTATION, names.BARRIER_ANNOTATION)
    )
    if not has_barrier or is_requested:
        return
    containers = (*init_containers, *tree.items_of(tree.dig(role.pod, "containers")))
    has_port = any(
        tree.dig(container, "ports") is not None or re.search(_PORT_VARIABLE, " ".join(_words(container)))
        for container in containers
    )
    if not has_port:
        message = (
            "an init container collects the addresses of all tasks, but this role declares no port. "
            "Declare the containerPort that the tasks listen on"
        )
        yield diagnostics.warning(role.node, role.path, message, Rule.NO_PORT)


def _check_host_paths(roles: Sequence[_Role]) -> Iterator[Diagnostic]:
    sharing: dict[str, list[tuple[_Role, tree.Node, str]]] = {}
    for role in roles:
        for index, volume in enumerate(tree.items_of(tree.dig(role.pod, "volumes"))):
            node = tree.dig(volume, "hostPath", "path")
            path = tree.text_of(node)
            if node is not None and path is not None and not _is_node_path(path):
                where = f"{diagnostics.item(f'{role.path}.task.pod.spec.volumes', index)}.hostPath.path"
                sharing.setdefault(path.rstrip("/"), []).append((role, node, where))
    for path, uses in sharing.items():
        tasks = sum(role.tasks for role, _, _ in uses)
        if tasks < 2:
            continue
        for role, node, where in uses:
            if not _is_pinned(role.pod):
                message = (
                    f"{tasks} tasks use the host path {diagnostics.quoted(path)}: on a cluster with several nodes they "
                    "see different folders. Pin them to a node with nodeSelector or nodeAffinity, or use a shared "
                    "volume, e.g. nfs"
                )
                yield diagnostics.warning(node, where, message, Rule.HOST_PATH)


def _is_node_path(path: str) -> bool:
    return any(path == own or path.startswith(f"{own}/") for own in _NODE_PATHS)


def _is_pinned(pod: tree.Node | None) -> bool:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return any(
        tree.dig(pod, *keys) is not None
        for keys in (
            ("nodeName",),
            ("nodeSelector",),
            ("affinity", "nodeAffinity", required),
            ("affinity", "podAffinity", required),
        )
    )


def _words(container: tree.Node) -> list[str]:
    return [
        text
        for field in ("command", "args")
        for item in tree.items_of(tree.dig(container, field))
        if (text := tree.text_of(item)) is not None
    ]


def _is_zero(node: tree.Node | None) -> bool:
    return node is None or tree.integer_of(node) == 0


def _number(node: tree.Node | None) -> int:
    """Return the number; 0 if it is missing or invalid."""
    return tree.integer_of(node) or 0
