"""Roles of a job as plain objects: their kind, and the names of their tasks."""

import msgspec

from windlass.discovery import peers, ports, tf_server
from windlass.discovery.peers import Address, Peers
from windlass.model import feature_annotations, names
from windlass.model.base import Json
from windlass.model.job import Job
from windlass.render import ssh
from windlass.render.code import Code
from windlass.render.framework import completion, pods
from windlass.render.plain.scripts import IndexSource
from windlass.render.storage.nfs_shares import Share

CLUSTER_DOMAIN = "svc.cluster.local"


class PlainRole(msgspec.Struct, frozen=True):
    name: str
    tasks: int
    workload: str
    """Name of its Job or StatefulSet."""
    is_endless: bool
    """Whether its tasks run until they are stopped: then the role becomes a StatefulSet, otherwise a Job."""
    template: Json
    """Pod template, with a command if it is known."""

    @property
    def port(self) -> int:
        return ports.port_of(self.template)

    @property
    def main(self) -> Json:
        """The container of the task."""
        container: Json = self.template["spec"]["containers"][0]
        return container

    @property
    def index_source(self) -> IndexSource:
        if self.is_endless:
            return IndexSource.POD_NAME
        return IndexSource.SINGLE_TASK if self.tasks == 1 else IndexSource.COMPLETION_INDEX

    def task_name(self, index: int) -> str:
        """Return the name of a task's Service, which is also the name of its pod in a StatefulSet."""
        return f"{self.workload}-{index}"


def roles_of(
    job: Job, code: Code | None = None, share: Share | None = None, prefix: str | None = None
) -> tuple[PlainRole, ...]:
    """Return all roles, including those without tasks. `prefix`: prefix of the workloads' names (default: `{job}-`)."""
    # The wrapper that sets the variables of a task replaces the entrypoint of its image.
    job = completion.without_entrypoints(job)
    return tuple(
        PlainRole(
            name=name,
            tasks=role.tasks,
            workload=f"{job.name}-{name}" if prefix is None else f"{prefix}{name}",
            is_endless=completion.is_endless(job, name) or _runs_tensorflow_server(template),
            template=template,
        )
        for name, role in job.roles.items()
        for template in (_with_server(job, name, pods.template(job, role, code, share)),)
    )


def peers_of(job: Job, roles: tuple[PlainRole, ...]) -> Peers:
    """Return addresses, e.g. `digits-worker-0:2222`, or fully qualified if the job has a namespace."""
    domain = f".{job.namespace}.{CLUSTER_DOMAIN}" if job.namespace else ""
    return peers.Peers(
        {
            role.name: tuple(
                Address(f"{role.task_name(index)}{domain}", role.port) for index in range(role.tasks)
            )
            for role in roles
        },
        feature_annotations.keeps_role_names(job.annotations),
    )


def labels(job: Job, role: PlainRole) -> dict[str, str]:
    """Return the labels that select the pods of a role."""
    return {names.JOB_LABEL: job.name, names.ROLE_LABEL: role.name}


def _with_server(job: Job, name: str, template: Json) -> Json:
    """Add the TensorFlow server of an idle task, or the sshd of an MPI task."""
    if not completion.is_idle_server(job, name):
        return ssh.with_ssh(template, job, name)
    spec = template["spec"]
    main, *others = spec["containers"]
    server_container = {**main, "command": list(tf_server.COMMAND)}
    return {**template, "spec": {**spec, "containers": [server_container, *others]}}


def _runs_tensorflow_server(template: Json) -> bool:
    """Return whether the command of the pod template runs a TensorFlow server."""
    command = template["spec"]["containers"][0].get("command") or ()
    return tuple(command) == tf_server.COMMAND
