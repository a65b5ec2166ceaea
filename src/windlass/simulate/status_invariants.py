"""Whether a status that is stored is true, and follows from the spec that it was decided on.

The rules are written a second time here, as plainly as possible and without the code that they judge.
"""

from datetime import datetime, timedelta

from windlass.model.completion import CompletionCode
from windlass.model.framework import ExecutionType, Framework, TaskRoleSpec
from windlass.model.gang import GangSpec
from windlass.model.pods import PodView
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskRoleStatus, TaskStatus
from windlass.simulate.api_server import ApiServer
from windlass.simulate.kubelets import Kubelets
from windlass.simulate.violation import insist

SLACK = timedelta(seconds=5)
"""Between a decision and its store lies a request."""
NEVER_RETRIED = {-210, -220, -230, -250}


class Truth:
    def __init__(self, server: ApiServer, kubelets: Kubelets) -> None:
        self._server = server
        self._kubelets = kubelets
        self._pods: dict[str, PodView] = {}
        """As they were created."""
        self._stored_addresses: set[tuple[str, str]] = set()
        """Pods with the addresses that some status has said they have."""
        server.on_gang_published.append(self._insist_on_stored_members)
        server.on_pod_created.append(self._remember)
        server.on_status_stored.append(self._judge)

    def _remember(self, pod: PodView) -> None:
        self._pods[pod.uid] = pod

    def _judge(self, framework: Framework, new: FrameworkStatus) -> None:
        old = framework.status
        for role in new.attempt_status.roles:
            for task in role.task_statuses:
                self._insist_on_identity(framework, new, role, task)
                if task.attempt_status.completion_status is not None and not _was_completed(old, task):
                    self._insist_on_cause(role, task)
        has_just_ended = new.attempt_status.completion_status is not None and (
            old is None
            or old.attempt_status.id != new.attempt_status.id
            or old.attempt_status.completion_status is None
        )
        if has_just_ended:
            self._insist_on_end(framework, new)
        if new.state in (State.ATTEMPT_PREPARING, State.ATTEMPT_RUNNING):
            _insist_on_obedience(framework, new, self._server.now)
        if new.state is State.COMPLETED and (old is None or old.state is not State.COMPLETED):
            _insist_that_no_retry_was_due(framework, new)
        _insist_on_delay(framework, old, new, self._server.now)

    def _insist_on_identity(
        self, framework: Framework, new: FrameworkStatus, role: TaskRoleStatus, task: TaskStatus
    ) -> None:
        """The pod that a task names was made for this very attempt of it."""
        uid = task.attempt_status.pod_uid
        if uid is None:
            return
        if task.attempt_status.pod_ip:
            self._stored_addresses.add((uid, task.attempt_status.pod_ip))
        pod = self._pods.get(uid)
        insist(pod is not None, f"{role.name}-{task.index} names a pod that nobody made: {uid}")
        if pod is not None:
            made_for = pod.metadata.annotations
            insist(
                (made_for.framework_uid, made_for.config_map_uid, made_for.task_uid, made_for.task_attempt_id)
                == (
                    framework.uid,
                    new.attempt_status.config_map_uid,
                    task.instance_uid,
                    str(task.attempt_status.id),
                ),
                f"{role.name}-{task.index} has adopted {uid}, which was made for {made_for}",
            )

    def _insist_on_stored_members(self, gang: GangSpec) -> None:
        """Nobody is told of an address that was not stored before."""
        for role in gang.roles:
            for member in role.members:
                is_stored = (member.pod_uid, member.ip) in self._stored_addresses
                insist(
                    is_stored, f"{gang.framework_name}: {role.name} at {member.ip} was published, not stored"
                )

    def _insist_on_cause(self, role: TaskRoleStatus, task: TaskStatus) -> None:
        """Codes of containers are what containers ended with, and what was deleted is gone or going."""
        completion = task.attempt_status.completion_status
        uid = task.attempt_status.pod_uid or ""
        code = 0 if completion is None else completion.code
        if code >= 0:
            ended = self._kubelets.exit_codes.get(uid)
            insist(
                ended == code, f"{role.name}-{task.index} ended with {code}, and its container with {ended}"
            )
        if code == CompletionCode.POD_EXTERNAL_DELETED:
            pod = self._server.pod_of(uid)
            is_gone = pod is None or pod.is_deleting
            insist(is_gone, f"{role.name}-{task.index} ended with -101, and its pod {uid} is there")

    def _insist_on_end(self, framework: Framework, new: FrameworkStatus) -> None:
        attempt = new.attempt_status
        ended = attempt.completion_status
        if ended is None:
            return
        spec = framework.spec
        match ended.code:
            case CompletionCode.CONFIG_MAP_EXTERNAL_DELETED:
                found = self._server.found(attempt.config_map_uid or "")
                insist(
                    found is None or found.is_deleting, f"{framework.name}: -100, and the ConfigMap is there"
                )
            case CompletionCode.STOP_FRAMEWORK_REQUESTED:
                insist(spec.execution_type is ExecutionType.STOP, f"{framework.name}: -210 without Stop")
            case CompletionCode.FRAMEWORK_SUSPENDED:
                insist(spec.suspend, f"{framework.name}: -130 without suspend")
            case CompletionCode.ACTIVE_DEADLINE_EXCEEDED:
                due = _active_deadline(framework, new)
                insist(due is not None and self._server.now >= due, f"{framework.name}: -250 too early")
            case _ if ended.trigger is not None and ended.code != CompletionCode.PENDING_DEADLINE_EXCEEDED:
                role = spec.role(ended.trigger.task_role_name)
                counted = _counts(new).get(ended.trigger.task_role_name, (0, 0))
                insist(
                    role is not None and _is_met(role, counted),
                    f"{framework.name}: {ended.trigger} was not met",
                )
            case CompletionCode.SUCCEEDED:
                wanted = sum(role.task_number for role in spec.task_roles)
                done = sum(sum(counts) for counts in _counts(new).values())
                insist(done >= wanted, f"{framework.name} succeeded with {done} of {wanted} tasks completed")


def _was_completed(old: FrameworkStatus | None, task: TaskStatus) -> bool:
    if old is None:
        return False
    return any(
        before.instance_uid == task.instance_uid
        and before.attempt_status.id == task.attempt_status.id
        and before.attempt_status.completion_status is not None
        for role in old.attempt_status.roles
        for before in role.task_statuses
    )


def _counts(status: FrameworkStatus) -> dict[str, tuple[int, int]]:
    """How many tasks of each role failed and succeeded by themselves."""
    counts = {}
    for role in status.attempt_status.roles:
        ends = [
            task.attempt_status.completion_status
            for task in role.task_statuses
            if task.state is State.COMPLETED and not task.deletion_pending
        ]
        own = [end for end in ends if end is not None and end.code != -220]
        counts[role.name] = (
            sum(end.type.name == "Failed" for end in own),
            sum(end.type.name == "Succeeded" for end in own),
        )
    return counts


def _is_met(role: TaskRoleSpec, counted: tuple[int, int]) -> bool:
    policy = role.framework_attempt_completion_policy
    return (0 < policy.min_failed_task_count <= counted[0]) or (
        0 < policy.min_succeeded_task_count <= counted[1]
    )


def _active_deadline(framework: Framework, status: FrameworkStatus) -> datetime | None:
    limit = framework.spec.active_deadline_seconds
    if limit is None:
        return None
    return status.start_time + timedelta(seconds=limit + status.holding.total_sec)


def _insist_on_obedience(framework: Framework, new: FrameworkStatus, now: datetime) -> None:
    """An attempt goes on only if the spec wants it to, with the tasks that the spec wants."""
    spec, name = framework.spec, framework.name
    insist(spec.execution_type is not ExecutionType.STOP, f"{name} is active in spite of Stop")
    insist(
        not spec.suspend or spec.execution_type is ExecutionType.CREATE,
        f"{name} is active in spite of suspend",
    )
    due = _active_deadline(framework, new)
    insist(due is None or now < due + SLACK, f"{name} is active beyond its deadline {due}")
    counts, roles = _counts(new), {role.name: role for role in new.attempt_status.roles}
    for role in spec.task_roles:
        insist(
            not _is_met(role, counts.get(role.name, (0, 0))), f"{name}: {role.name} decides, and it goes on"
        )
        has = len(roles[role.name].task_statuses) if role.name in roles else 0
        insist(has >= role.task_number, f"{name}: {role.name} has {has} of {role.task_number} tasks")
    for role_name, status in roles.items():
        spec_role = spec.role(role_name)
        wanted = 0 if spec_role is None else spec_role.task_number
        for task in status.task_statuses[wanted:]:
            insist(task.deletion_pending, f"{name}: {role_name}-{task.index} is unwanted, and not marked")


def _insist_that_no_retry_was_due(framework: Framework, new: FrameworkStatus) -> None:
    ended, policy = new.attempt_status.completion_status, framework.spec.retry_policy
    if ended is None or ended.code in NEVER_RETRIED or ended.type.name != "Failed":
        return
    has_retries_left = new.retry_policy_status.accountable_retried_count < policy.max_retry_count
    is_for_counting = not policy.fancy_retry_policy or not (
        {"Transient", "Permanent"} & set(ended.type.attributes)
    )
    insist(
        not (is_for_counting and has_retries_left), f"{framework.name} completed with retries left: {ended}"
    )
    insist(ended.code != CompletionCode.FRAMEWORK_SUSPENDED, f"{framework.name}: a suspension completed it")


def _insist_on_delay(
    framework: Framework, old: FrameworkStatus | None, new: FrameworkStatus, now: datetime
) -> None:
    """A delay that was stored is waited for, unless Stop or a deadline cuts it short (statements 27, 28)."""
    if old is None or new.attempt_status.id == old.attempt_status.id:
        return
    delay, ended = old.retry_policy_status.retry_delay_sec, old.attempt_status.completion_time
    is_cut_short = (
        framework.spec.execution_type is ExecutionType.STOP
        or framework.spec.active_deadline_seconds is not None
    )
    if delay is not None and ended is not None and not is_cut_short:
        insist(
            now >= ended + timedelta(seconds=delay), f"{framework.name} was retried before its delay was over"
        )
