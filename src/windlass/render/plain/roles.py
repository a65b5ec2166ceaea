"""The roles of a job as a cluster without a controller has them: what each becomes, and what its tasks are called."""

import msgspec

from windlass.discovery import peers, ports, tf_server
from windlass.discovery.peers import Address, Peers
from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job
from windlass.render.code import Code
from windlass.render.framework import completion, pods
from windlass.render.plain.scripts import Counted
from windlass.render.storage.nfs_shares import Share

CLUSTER_DOMAIN = "svc.cluster.local"


class PlainRole(msgspec.Struct, frozen=True):
    name: str
    tasks: int
    workload: str
    """The name of its Job or StatefulSet."""
    is_endless: bool
    """Its tasks go on until somebody ends them: they are a StatefulSet's. Others are a Job's."""
    template: Json
    """Of its pods, with a command where one is known."""

    @property
    def port(self) -> int:
        return ports.port_of(self.template)

    @property
    def main(self) -> Json:
        """The task's own container."""
        container: Json = self.template["spec"]["containers"][0]
        return container

    @property
    def counted(self) -> Counted:
        if self.is_endless:
            return Counted.BY_NAME
        return Counted.ALONE if self.tasks == 1 else Counted.BY_KUBERNETES

    def task(self, index: int) -> str:
        """The name of its Service, and of its pod where that is a StatefulSet's."""
        return f"{self.workload}-{index}"


def roles_of(
    job: Job, code: Code | None = None, share: Share | None = None, prefix: str | None = None
) -> tuple[PlainRole, ...]:
    """Also those without a task. `prefix` begins the names of all of them: without it, that is the name of the job."""
    return tuple(
        PlainRole(
            name=name,
            tasks=role.tasks,
            workload=f"{job.name}-{name}" if prefix is None else f"{prefix}{name}",
            is_endless=completion.is_endless(job, name) or _is_a_server(template),
            template=template,
        )
        for name, role in job.roles.items()
        for template in (_with_a_server(job, name, pods.template(job, role, code, share)),)
    )


def peers_of(job: Job, roles: tuple[PlainRole, ...]) -> Peers:
    """`digits-worker-0:2222`, which the name servers of the namespace complete; in full where the job names that."""
    domain = f".{job.namespace}.{CLUSTER_DOMAIN}" if job.namespace else ""
    return peers.Peers(
        {
            role.name: tuple(Address(f"{role.task(index)}{domain}", role.port) for index in range(role.tasks))
            for role in roles
        }
    )


def labels(job: Job, role: PlainRole) -> dict[str, str]:
    """By which the pods of a role are found."""
    return {names.JOB_LABEL: job.name, names.ROLE_LABEL: role.name}


def _with_a_server(job: Job, name: str, template: Json) -> Json:
    if not completion.is_idle_server(job, name):
        return template
    spec = template["spec"]
    main, *others = spec["containers"]
    served = {**main, "command": list(tf_server.COMMAND)}
    return {**template, "spec": {**spec, "containers": [served, *others]}}


def _is_a_server(template: Json) -> bool:
    """Whether that is what its tasks are told to run, whatever their role is called."""
    command = template["spec"]["containers"][0].get("command") or ()
    return tuple(command) == tf_server.COMMAND
