"""Warn about tasks that are too large for every node of a cluster, if the user may list its nodes.

A larger node may join later, so the job is submitted nevertheless.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from windlass.client import lookup
from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.client.submit.plan import SubmitPlan
from windlass.k8s import pod_resources
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.resources import NODES
from windlass.model.base import Json


class NodeSpec(msgspec.Struct, frozen=True):
    unschedulable: bool = False


class NodeMetadata(msgspec.Struct, frozen=True):
    labels: Mapping[str, str] = {}


class NodeStatus(msgspec.Struct, frozen=True):
    allocatable: Mapping[str, str] = {}


class Node(msgspec.Struct, frozen=True):
    metadata: NodeMetadata = NodeMetadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


async def warnings(connection: Connection, plans: Sequence[SubmitPlan]) -> tuple[str, ...]:
    """Return the warnings about all jobs; none if the user may not list nodes."""
    jobs = [job for plan in plans for job in plan.jobs if not plan.companions_only]
    requests_something = any(
        requests_of(role) or _selector(role) for job in jobs for role in roles_of(job.framework)
    )
    if not requests_something:
        return ()
    try:
        listed = await lookup.list_objects(connection, NODES, "")
        nodes = [msgspec.json.decode(node, type=Node) for node in listed]
    except (ApiError, ClientError, msgspec.ValidationError):
        return ()
    return tuple(
        warning
        for job in jobs
        for role in roles_of(job.framework)
        for warning in role_warnings(job.name, role, nodes)
    )


def role_warnings(job: str, role: Json, nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the warnings about the tasks of a role."""
    selector = _selector(role)
    eligible = [
        node
        for node in nodes
        if not node.spec.unschedulable and selector.items() <= node.metadata.labels.items()
    ]
    stays = "The job stays pending until such a node joins."
    if nodes and not eligible and selector:
        labels = ", ".join(f"{name}={value}" for name, value in selector.items())
        yield f"{job}: {role['name']} requires a node with {labels}, and none of {len(nodes)} has these labels. {stays}"
        return
    offered = [pod_resources.amounts_of(node.status.allocatable) for node in eligible]
    for shortage in pod_resources.shortages(requests_of(role), offered) if offered else ():
        yield (
            f"{job}: each task of {role['name']} needs {shortage.needed_text}, "
            f"{'the only node' if len(eligible) == 1 else f'the largest of {len(eligible)} nodes'} has "
            f"{shortage.offered_text}. {stays}"
        )


def roles_of(framework: Json) -> list[Json]:
    """Return the roles that have tasks."""
    return [role for role in framework["spec"].get("taskRoles") or () if role.get("taskNumber")]


def _spec_of(role: Json) -> Json:
    spec: Json = ((role.get("task") or {}).get("pod") or {}).get("spec") or {}
    return spec


def _selector(role: Json) -> dict[str, str]:
    return dict(_spec_of(role).get("nodeSelector") or {})


def requests_of(role: Json) -> pod_resources.Amounts:
    """Return the requests of each task of a role."""
    amounts = pod_resources.total(pod_resources.with_default_requests(_spec_of(role)), {})
    return {name: amount for name, amount in amounts.items() if amount > 0}
