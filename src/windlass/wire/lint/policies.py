"""Does a Framework end, and as its author meant: completion and retry policies beside what the tasks do.

All of these are warnings: such a Framework runs, here and on the reference. Whether a program ends is a guess from what
its command says, so only commands that plainly do not are spoken of.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from windlass.model import names, role_names
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import ALWAYS_RETRY, RETRY_IF_FAILED
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic, Fix, Remedy, Rule
from windlass.wire.yaml import tree

_PS = "ps"
_SERVERS_BY_NAME = frozenset({"jupyter", "notebook", "tensorboard"})
# These are compiled when they are needed, which is seldom, and not when the program starts.
_SPEAK_OF_ENDLESSNESS = ("sleep", "tail", "tensorboard", "jupyter", "tf-server")
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
"""What a parameter server is written in; a role may be called so and just print a file."""
_PORT_OF_A_ROLE = r"\bFB_[A-Z0-9]+_PORT=|\b\w+_port="
_BARRIERS = ("frameworkbarrier", "get_ips.sh")
"""What the init containers that wait for addresses are known by."""
_OF_THE_NODE = ("/dev", "/etc", "/lib", "/proc", "/run", "/sys", "/tmp", "/usr", "/var/run")  # noqa: S108
"""Host paths that mean the node's own: devices, drivers, sockets, the time zone, scratch space."""
_MOST_TEXT = 20_000
"""Of a command; a longer one is a program, and is not read."""


class _Role(msgspec.Struct, frozen=True):
    node: tree.Mapping
    path: str
    runtime: str

    @property
    def name(self) -> str:
        return tree.text_of(self.node.get("name")) or ""

    @property
    def tasks(self) -> int:
        return _number(self.node.get("taskNumber"))

    @property
    def pod(self) -> tree.Node | None:
        return tree.dig(self.node, "task", "pod", "spec")

    def limit(self, field: str) -> tree.Node | None:
        return tree.dig(self.node, "frameworkAttemptCompletionPolicy", field)

    @property
    def decides_success(self) -> bool:
        return _number(self.limit("minSucceededTaskCount")) > 0


class _Endless(msgspec.Struct, frozen=True):
    """Why the tasks of a role never end by themselves."""

    reason: str
    remedy: str = ""
    """How they would; empty where they should not."""
    is_by_choice: bool = True


def check(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """`path` is where the Framework stands in its document."""
    spec_path = diagnostics.field(path, "spec")
    roles = tuple(_roles(framework, f"{spec_path}.taskRoles"))
    for role in roles:
        yield from _check_count(role, "minFailedTaskCount", _NEVER_FAILS, Rule.MIN_FAILED_TOO_LARGE)
        yield from _check_count(role, "minSucceededTaskCount", _NEVER_SUCCEEDS, Rule.MIN_SUCCEEDED_TOO_LARGE)
        yield from _check_own_barrier(framework, role)
    yield from _check_endings(roles)
    yield from _check_tasks(framework, roles, f"{spec_path}.taskRoles")
    yield from _check_retries(framework, f"{spec_path}.retryPolicy")
    yield from _check_host_paths(roles)


def _roles(framework: tree.Mapping, path: str) -> Iterator[_Role]:
    runtime = tree.text_of(tree.dig(framework, "metadata", "annotations", names.RUNTIME_ANNOTATION)) or ""
    for index, node in enumerate(tree.items_of(tree.dig(framework, "spec", "taskRoles"))):
        if isinstance(node, tree.Mapping):
            yield _Role(node, diagnostics.item(path, index), runtime)


_NEVER_FAILS = "so failed tasks of this role never end the job"
_NEVER_SUCCEEDS = "so succeeded tasks of this role never end the job"


def _check_count(role: _Role, field: str, consequence: str, rule: Rule) -> Iterator[Diagnostic]:
    node = role.limit(field)
    count = _number(node)
    if node is None or not 0 < role.tasks < count:
        return
    tasks = "1 task" if role.tasks == 1 else f"{role.tasks} tasks"
    message = (
        f"found {count}, and the role has {tasks}: this is never reached, {consequence}. "
        f"Write {role.tasks} for all of them, or -1 where they should not decide"
    )
    where = f"{role.path}.frameworkAttemptCompletionPolicy.{field}"
    yield diagnostics.warning(node, where, message, rule, Fix(Remedy.REPLACE, str(role.tasks)))


def _check_endings(roles: Sequence[_Role]) -> Iterator[Diagnostic]:
    """An attempt ends by a rule of one role, or when every task of every role has ended."""
    working = [role for role in roles if role.tasks > 0 and role.pod is not None]
    endless = {role.path: why for role in working if (why := _why_endless(role)) is not None}
    for role in working:
        if role.path in endless and role.decides_success:
            yield _waits_in_vain(role, endless[role.path])
    somebody_decides = any(role.decides_success for role in working)
    is_meant_to_stay = all(role.path in endless and endless[role.path].is_by_choice for role in working)
    if somebody_decides or is_meant_to_stay:
        return
    for role in working:
        if role.path in endless:
            yield _keeps_the_job(role, endless[role.path])


def _waits_in_vain(role: _Role, why: _Endless) -> Diagnostic:
    field = "frameworkAttemptCompletionPolicy.minSucceededTaskCount"
    return diagnostics.warning(
        role.limit("minSucceededTaskCount") or role.node,
        f"{role.path}.{field}",
        f"the job waits for tasks of this role to succeed, and they never end: {why.reason}. "
        f"{why.remedy or 'Write -1, and let the role that does the work decide'}",
        Rule.NEVER_EXITS,
    )


def _keeps_the_job(role: _Role, why: _Endless) -> Diagnostic:
    return diagnostics.warning(
        role.node.get("name") or role.node,
        f"{role.path}.name",
        "no role decides when the job has succeeded, so it ends when all tasks have, and those of this role never do: "
        f"{why.reason}. {why.remedy or 'Give the role that does the work a minSucceededTaskCount'}",
        Rule.NEVER_EXITS,
    )


def _why_endless(role: _Role) -> _Endless | None:
    policy = tree.dig(role.pod, "restartPolicy")
    if policy is None:
        reason = "without a restartPolicy, Kubernetes starts every container again that ends"
        return _Endless(reason, "Write restartPolicy: Never in the pod's spec", is_by_choice=False)
    if tree.text_of(policy) == "Always":
        reason = "restartPolicy: Always starts every container again that ends"
        return _Endless(reason, "Write restartPolicy: Never in the pod's spec")
    if _number(tree.dig(role.node, "task", "retryPolicy", "maxRetryCount")) == ALWAYS_RETRY:
        reason = f"with maxRetryCount {ALWAYS_RETRY} a task is started again when it has succeeded, too"
        return _Endless(reason, f"Write {RETRY_IF_FAILED} there, to have failures retried without end")
    reason = _endless_program(role)
    return _Endless(reason) if reason else None


def _endless_program(role: _Role) -> str:
    """One container that never ends keeps its pod."""
    is_called_a_server = role_names.type_of(role.name) == _PS
    for index, container in enumerate(tree.items_of(tree.dig(role.pod, "containers"))):
        words = _words(container)
        text = " ".join(words)[:_MOST_TEXT]
        command = _endless_command(text)
        if command:
            name = diagnostics.quoted(tree.text_of(tree.dig(container, "name")) or "")
            return f'"{diagnostics.truncate(command)}" in container {name} runs until it is stopped'
        if index == 0 and not words and role.runtime == Runtime.TENSORFLOW:
            return (
                "a container without a command is an idle TensorFlow server, which runs until it is stopped"
            )
        if index == 0 and not words and role.name in _SERVERS_BY_NAME:
            return f"a {role.name} server runs until it is stopped"
        if is_called_a_server and re.search(_PYTHON, text):
            return "a parameter server serves until it is stopped"
    return ""


def _endless_command(text: str) -> str:
    """The first that is not put into the background."""
    if not any(word in text for word in _SPEAK_OF_ENDLESSNESS):
        return ""
    for found in re.finditer(_ENDLESS, text):
        following = re.search(_NEXT_COMMAND, text[found.end() :])
        is_in_the_background = following is not None and following[0] == "&"
        if not is_in_the_background:
            return found[0]
    return ""


def _check_tasks(framework: tree.Mapping, roles: Sequence[_Role], path: str) -> Iterator[Diagnostic]:
    if roles and all(role.tasks == 0 and _is_zero(role.node.get("taskNumber")) for role in roles):
        message = "no role has tasks: nothing runs until somebody scales it. Write a taskNumber of at least 1"
        yield diagnostics.warning(
            tree.dig(framework, "spec", "taskRoles") or framework, path, message, Rule.NO_TASKS
        )
        return
    deciding = [role for role in roles if role.decides_success]
    if deciding and all(_is_zero(role.node.get("taskNumber")) for role in deciding):
        for role in deciding:
            message = (
                "this role alone decides when the job has succeeded, and it has no tasks: the job ends when all "
                "tasks of the other roles have, whatever became of them. Write a taskNumber of at least 1"
            )
            at = role.node.get("taskNumber") or role.node
            yield diagnostics.warning(at, f"{role.path}.taskNumber", message, Rule.NO_TASKS)


def _check_retries(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    node = tree.dig(framework, "spec", "retryPolicy", "maxRetryCount")
    if node is not None and _number(node) == ALWAYS_RETRY:
        message = (
            f"found {ALWAYS_RETRY}, with which the job begins anew when it has succeeded, too, and never ends. "
            f"Write {RETRY_IF_FAILED} to have failures retried without end, or how often at most"
        )
        yield diagnostics.warning(node, f"{path}.maxRetryCount", message, Rule.ENDLESS_RETRY)


def _check_own_barrier(framework: tree.Mapping, role: _Role) -> Iterator[Diagnostic]:
    """Those that an annotation asks for are spoken of in `wish_faults`."""
    init_containers = tree.items_of(tree.dig(role.pod, "initContainers"))
    has_a_barrier = any(
        known in text
        for container in init_containers
        for text in (tree.text_of(tree.dig(container, "image")) or "", *_words(container))
        for known in _BARRIERS
    )
    annotations = tree.dig(framework, "metadata", "annotations")
    is_spoken_of = any(
        tree.dig(annotations, name) is not None
        for name in (names.RUNTIME_ANNOTATION, names.BARRIER_ANNOTATION)
    )
    if not has_a_barrier or is_spoken_of:
        return
    containers = (*init_containers, *tree.items_of(tree.dig(role.pod, "containers")))
    says_a_port = any(
        tree.dig(container, "ports") is not None or re.search(_PORT_OF_A_ROLE, " ".join(_words(container)))
        for container in containers
    )
    if not says_a_port:
        message = (
            "an init container finds the addresses of all tasks, and none of this role says at which port it is. "
            "Declare the containerPort that they listen at"
        )
        yield diagnostics.warning(role.node, role.path, message, Rule.NO_PORT)


def _check_host_paths(roles: Sequence[_Role]) -> Iterator[Diagnostic]:
    sharing: dict[str, list[tuple[_Role, tree.Node, str]]] = {}
    for role in roles:
        for index, volume in enumerate(tree.items_of(tree.dig(role.pod, "volumes"))):
            node = tree.dig(volume, "hostPath", "path")
            path = tree.text_of(node)
            if node is not None and path is not None and not _is_of_the_node(path):
                where = f"{diagnostics.item(f'{role.path}.task.pod.spec.volumes', index)}.hostPath.path"
                sharing.setdefault(path.rstrip("/"), []).append((role, node, where))
    for path, uses in sharing.items():
        tasks = sum(role.tasks for role, _, _ in uses)
        if tasks < 2:
            continue
        for role, node, where in uses:
            if not _is_held_to_nodes(role.pod):
                message = (
                    f"{tasks} tasks have {diagnostics.quoted(path)} of the node that each of them "
                    "happens to run on: on a "
                    "cluster of several nodes they see different folders. Hold them to nodes by nodeSelector or "
                    "nodeAffinity, or use a volume that nodes share, such as nfs"
                )
                yield diagnostics.warning(node, where, message, Rule.HOST_PATH)


def _is_of_the_node(path: str) -> bool:
    return any(path == own or path.startswith(f"{own}/") for own in _OF_THE_NODE)


def _is_held_to_nodes(pod: tree.Node | None) -> bool:
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
    return node is None or (structural_validation.is_integer(node) and _number(node) == 0)


def _number(node: tree.Node | None) -> int:
    """0 where there is none, and where it is no number, of which others speak."""
    is_usable = node is not None and structural_validation.is_integer(node)
    return node.value if is_usable and isinstance(node, tree.Scalar) and isinstance(node.value, int) else 0
