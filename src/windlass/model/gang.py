"""The Gang: the members of an attempt and their addresses. It is published for the barrier.

It contains only what a member needs to find the others, so that permission to read it reveals nothing else of a
Framework.
"""

from collections.abc import Mapping
from hashlib import blake2b

from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.framework import FrameworkSpec
from windlass.model.status import FrameworkAttemptStatus

API_VERSION = f"{names.GANG_GROUP}/{names.VERSION}"


class GangMember(Sparse, frozen=True):
    pod_uid: str = ""
    ip: str = ""
    port: int = 0
    """Port of this member if pods share one network. 0: the port of its role."""
    dns_name: str = ""
    """DNS name that the pod template sets. Empty: {role}-{index} in the service."""


class GangRole(Sparse, frozen=True):
    """A role and its tasks, in the order of their index."""

    name: str
    port: int = 0
    """Port that its tasks listen on."""
    slots: int = 1
    """Number of MPI slots of each task: the annotation `windlass.dev/slots`, otherwise its GPUs, otherwise its whole
    CPUs; at least 1."""
    members: tuple[GangMember, ...] = ()


class GangSpec(Sparse, frozen=True):
    framework_name: str = ""
    framework_uid: str = ""
    attempt_instance_uid: str = ""
    """Value of FC_FRAMEWORK_ATTEMPT_INSTANCE_UID. Addresses of another attempt are not valid."""
    service: str = ""
    """The headless Service that gives members DNS names. Empty: they have addresses only."""
    roles: tuple[GangRole, ...] = ()

    def has_member(self, pod_uid: str) -> bool:
        return any(member.pod_uid == pod_uid for role in self.roles for member in role.members)


class Gang(Sparse, frozen=True):
    """The members of one attempt, with their addresses."""

    spec: GangSpec = GangSpec()


Members = Mapping[str, tuple[GangMember, ...]]
"""Members by role, in the order of the spec."""


def members_of(spec: FrameworkSpec, attempt: FrameworkAttemptStatus) -> Members | None:
    """Return the members, or None while a task of the spec has no address (statement 47 of
    docs/behaviours.md). Tasks marked for deletion do not count."""
    tasks = {role.name: role.task_statuses for role in attempt.roles}
    found: dict[str, tuple[GangMember, ...]] = {}
    for role in spec.task_roles:
        members = tuple(
            GangMember(task.attempt_status.pod_uid or "", task.attempt_status.pod_ip or "")
            for task in tasks.get(role.name, ())
            if not task.deletion_pending
        )
        if len(members) != role.task_number or not all(member.ip for member in members):
            return None
        found[role.name] = members
    return found


def fingerprint(members: Members) -> str:
    """Return a hash of the pods and their addresses."""
    digest = blake2b(digest_size=16)
    for role, role_members in members.items():
        digest.update(f"{role}\n".encode())
        digest.update("\n".join(f"{member.pod_uid} {member.ip}" for member in role_members).encode())
    return digest.hexdigest()
