"""What all companions are made of: one pod that is replaced when it ends, and a Service before it."""

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, ServiceType
from windlass.model.job import Job, Role
from windlass.render import beside, cluster_spec, pods
from windlass.render.companions.settled import Settled
from windlass.render.shares import Share

ADDRESS = "WINDLASS_ADDRESS"
"""In the container: the address of its pod."""
JOB = "WINDLASS_JOB"
"""In the container: the name of the job."""
LISTEN = f"""\
case ${ADDRESS} in
127.*) host=${ADDRESS} ;;
*) host=0.0.0.0 ;;
esac
"""
"""The beginning of a script. A pod on the network of its machine has a loopback address to itself, and nothing else
there is its own; any other pod is reached by its own loopback too, through port-forward."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    companion: Companion
    job: str
    """Whose it is."""
    namespace: str = ""
    """Empty where it is left open."""
    labels: dict[str, str] = {}
    """Of the job."""
    name: str
    """Of the Deployment."""
    service: str
    """The name of the Service."""
    service_type: ServiceType
    ports: dict[str, int]
    """By name. The first is the one that people open."""
    container: Json
    pod: Json
    """The rest of its pod's spec."""
    annotations: dict[str, str] = {}
    """Of the pod: when one of these changes, the pod is replaced."""


def name_of(job: str, companion: Companion) -> str:
    """Of all that belongs to one, but for TensorBoard's Service."""
    return f"{job}-{companion}"


def objects(server: Server) -> tuple[Json, Json]:
    """The Deployment and the Service."""
    return _deployment(server), _service(server)


def metadata(server: Server, name: str) -> Json:
    place = {"namespace": server.namespace} if server.namespace else {}
    return {"name": name, **place, "labels": {**server.labels, **_labels(server)}}


def pod_spec(job: Job, share: Share | None) -> Json:
    """Of a companion that sees the job's volumes, where its tasks do. Without containers."""
    spec = beside.pod_spec(job, share)
    del spec["restartPolicy"]
    # A Service called jupyter would set JUPYTER_PORT, where Jupyter looks for a number.
    return {"enableServiceLinks": False, **spec}


def address_variable() -> Json:
    return {"name": ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def environment(job: Job, settled: Settled, *own: Json) -> Json:
    """`env` and `envFrom` of a container for people who work on the job: they have its variables, and are told who its
    tasks are. What is `own` counts before what the job says."""
    told = (
        {"name": JOB, "value": job.name},
        {
            "name": cluster_spec.VARIABLE,
            "value": cluster_spec.of_job(
                job, job.namespace, is_plain=settled.is_plain, prefix=settled.prefix
            ),
        },
    )
    of_the_job = pods.container(job, Role())
    by_name = {each["name"]: each for each in (*map(_if_it_is_there, of_the_job["env"]), *told, *own)}
    sources = of_the_job.get("envFrom")
    return {"env": list(by_name.values()), **({"envFrom": sources} if sources else {})}


def _if_it_is_there(variable: Json) -> Json:
    """A companion may stay when the job goes, and what the job kept in a Secret goes with it."""
    key = (variable.get("valueFrom") or {}).get("secretKeyRef")
    return variable if key is None else {**variable, "valueFrom": {"secretKeyRef": {**key, "optional": True}}}


def _deployment(server: Server) -> Json:
    labels = _labels(server)
    of_the_pod: Json = {"labels": {**server.labels, **labels}}
    if server.annotations:
        of_the_pod["annotations"] = server.annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(server, server.name),
        "spec": {
            "replicas": 1,
            # Two of them would write to the same files.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": of_the_pod, "spec": {**server.pod, "containers": [server.container]}},
        },
    }


def _service(server: Server) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(server, server.service),
        "spec": {
            "type": str(server.service_type),
            "selector": _labels(server),
            "ports": [
                {"name": name, "port": port, "targetPort": port} for name, port in server.ports.items()
            ],
        },
    }


def _labels(server: Server) -> dict[str, str]:
    return {names.JOB_LABEL: server.job, names.COMPANION_LABEL: str(server.companion)}
