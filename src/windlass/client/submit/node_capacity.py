"""Find tasks that are too large for every node of a cluster, if the user may list its nodes.

A larger node may join later, so a job is submitted nevertheless, with a warning.
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
    jobs = [(job.name, job.framework) for plan in plans for job in plan.jobs if not plan.companions_only]
    found = await shortages(connection, jobs)
    return tuple(f"{name}: {each}. The job stays pending until such a node joins." for name, each in found)


async def shortages(connection: Connection, jobs: Sequence[tuple[str, Json]]) -> tuple[tuple[str, str], ...]:
    """Return the names of jobs with tasks for which every node is too small, and why. `jobs` are Frameworks with their
    names."""
    roles = [(name, role) for name, framework in jobs for role in roles_of(framework)]
    if not any(requests_of(role) or _selector(role) for _, role in roles):
        return ()
    try:
        listed = await lookup.list_objects(connection, NODES, "")
        nodes = [msgspec.json.decode(node, type=Node) for node in listed]
    except (ApiError, ClientError, msgspec.ValidationError):
        return ()
    return tuple((name, each) for name, role in roles for each in role_shortages(role, nodes))


def role_shortages(role: Json, nodes: Sequence[Node]) -> Iterator[str]:
    """Yield what every node lacks for the tasks of a role."""
    selector = _selector(role)
    eligible = [
        node
        for node in nodes
        if not node.spec.unschedulable and selector.items() <= node.metadata.labels.items()
    ]
    if nodes and not eligible and selector:
        labels = ", ".join(f"{name}={value}" for name, value in selector.items())
        yield f"{role['name']} requires a node with {labels}, and none of {len(nodes)} has these labels"
        return
    offered = [pod_resources.amounts_of(node.status.allocatable) for node in eligible]
    for shortage in pod_resources.shortages(requests_of(role), offered) if offered else ():
        yield (
            f"each task of {role['name']} needs {shortage.needed_text}, "
            f"{'the only node' if len(eligible) == 1 else f'the largest of {len(eligible)} nodes'} has "
            f"{shortage.offered_text}"
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
