"""Render what all companions have: a Deployment with one pod, a Service, and a Secret with password hashes."""

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, CompanionSpec, ServiceType, password_source
from windlass.model.job import Job, Role
from windlass.model.resources import Resources
from windlass.render import cluster_spec, helper_pods
from windlass.render.companions import password_files
from windlass.render.companions.password_files import ByUser
from windlass.render.framework import pods
from windlass.render.storage.nfs_shares import Share

ADDRESS = "WINDLASS_ADDRESS"
"""Variable with the address of the pod."""
JOB = "WINDLASS_JOB"
"""Variable with the name of the job."""
LISTEN = f"""\
case ${ADDRESS} in
127.*) host=${ADDRESS} ;;
*:*) host=:: ;;
*) host=0.0.0.0 ;;
esac
"""
"""First lines of a start script: set the address to listen on. A pod on a shared network owns only its loopback
address; any other pod also listens on its loopback for port-forward."""
HOME = "/windlass/home"
"""Root of a Jupyter server, with links to the volumes."""
HOME_VOLUME: Json = {"name": "windlass-home", "emptyDir": {}}
HOME_MOUNT: Json = {"name": HOME_VOLUME["name"], "mountPath": HOME}
WITHOUT_LINKS: Json = {"enableServiceLinks": False}
"""Field of a pod spec. A Service called jupyter would set JUPYTER_PORT, which Jupyter expects to be a number."""

_PROBED_EVERY_SECONDS = 2
"""Probe interval: short, because users wait for readiness."""
_DIGITS = 16


class ResolvedCompanions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a job's companions that its job file leaves open."""

    hashes: Mapping[Companion, ByUser] = {}
    """Password hashes of `password_files.hashed`, by user (`ALL_USERS` for Jupyter). None for a companion whose
    passwords are in a Secret of the user."""
    generated: Mapping[Companion, ByUser] = {}
    """Generated passwords, which are shown once."""
    tensorboard_service: str = ""
    """Name of TensorBoard's Service, if another job has the Service that the job file names."""
    is_embedded: bool = False
    """Whether pods run on this machine: a hub then starts processes for its users, not pods."""
    is_plain: bool = False
    """Whether the job becomes plain objects, whose tasks have other names than those of a Framework."""
    prefix: str | None = None
    """Prefix of the task names in plain objects (default: the name of the job)."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    companion: Companion
    job: str
    namespace: str = ""
    labels: dict[str, str] = {}
    """Labels of the job."""
    name: str
    """Name of all its objects, except a Service with another name."""
    service: str = ""
    service_type: ServiceType
    port: int
    ready_at: str
    """Path of the readiness probe."""
    container: Json = {}
    pod: Json = {}
    """Other fields of its pod spec."""
    hashes: ByUser = {}
    """Password hashes for its Secret. A change replaces the pod."""
    secret: str = ""
    """Name of a Secret of the user that has the hashes."""
    files: Mapping[str, str] = {}
    """Files for its ConfigMap."""
    annotations: Mapping[str, str] = {}
    """Annotations of the pod. A change replaces the pod."""

    @property
    def passwords(self) -> Json:
        """The volume source with the hashes."""
        return {"secret": {"secretName": self.secret or self.name}}


def name_of(job: str, companion: Companion) -> str:
    """Return the name of a companion's objects, except TensorBoard's Service."""
    return f"{job}-{companion}"


def base_server(
    job: Job,
    companion: Companion,
    spec: CompanionSpec,
    resolved: ResolvedCompanions,
    namespace: str,
    *,
    ready_at: str,
) -> Server:
    """Return the common fields of a server. `namespace` is for a job that names none."""
    chosen = password_source(spec).secret
    return Server(
        companion=companion,
        job=job.name,
        namespace=job.namespace or namespace,
        labels=job.labels,
        name=name_of(job.name, companion),
        service_type=spec.service,
        port=spec.port,
        ready_at=ready_at,
        hashes={} if chosen else resolved.hashes.get(companion, {}),
        secret=chosen,
    )


def labels_of(job: str, companion: Companion) -> dict[str, str]:
    """Return the labels that select the objects of a companion."""
    return {names.JOB_LABEL: job, names.COMPANION_LABEL: str(companion)}


def objects(server: Server) -> tuple[Json, ...]:
    """Return the Secret and the ConfigMap, if they are not empty, the Deployment and the Service."""
    return (
        *((_secret(server),) if server.hashes else ()),
        *((_config_map(server),) if server.files else ()),
        _deployment(server),
        _service(server),
    )


def metadata(server: Server, name: str = "") -> Json:
    place = {"namespace": server.namespace} if server.namespace else {}
    return {"name": name or server.name, **place, "labels": {**server.labels, **_labels(server)}}


def password_annotation(companion: Companion, hashes: ByUser) -> dict[str, str]:
    """Return a pod annotation that changes with the hashes."""
    return {names.PASSWORD_ANNOTATION: digest(password_files.files(companion, hashes))}


def digest(files: Mapping[str, str]) -> str:
    return sha256(msgspec.json.encode(files, order="sorted")).hexdigest()[:_DIGITS]


def amounts(resources: Resources | None) -> Json:
    """Return the field `resources` of a container, if there are any."""
    found = pods.resources_of(resources)
    return {"resources": found} if found else {}


def pod_spec(job: Job, share: Share | None) -> Json:
    """Return a pod spec without containers, with the job's volumes and nodes."""
    spec = helper_pods.pod_spec(job, share)
    del spec["restartPolicy"]
    return {**WITHOUT_LINKS, **spec}


def address_variable() -> Json:
    return {"name": ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def environment(job: Job, resolved: ResolvedCompanions, *own: Json) -> Json:
    """Return `env` and `envFrom` of a container with the job's variables and the addresses of its tasks.

    The variables in `own` override those of the job.
    """
    about_job = (
        {"name": JOB, "value": job.name},
        {
            "name": cluster_spec.VARIABLE,
            "value": cluster_spec.of_job(
                job, job.namespace, is_plain=resolved.is_plain, prefix=resolved.prefix
            ),
        },
    )
    of_the_job = pods.container(job, Role())
    by_name = {each["name"]: each for each in (*map(_optional, of_the_job["env"]), *about_job, *own)}
    sources = of_the_job.get("envFrom")
    return {"env": list(by_name.values()), **({"envFrom": sources} if sources else {})}


def _optional(variable: Json) -> Json:
    """Make a Secret variable optional: a companion may outlive the job, which owns the Secret."""
    key = (variable.get("valueFrom") or {}).get("secretKeyRef")
    return variable if key is None else {**variable, "valueFrom": {"secretKeyRef": {**key, "optional": True}}}


def _secret(server: Server) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(server),
        "type": "Opaque",
        "stringData": password_files.files(server.companion, server.hashes),
    }


def _config_map(server: Server) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(server), "data": dict(server.files)}


def _deployment(server: Server) -> Json:
    labels = _labels(server)
    of_the_pod: Json = {"labels": {**server.labels, **labels}}
    password = password_annotation(server.companion, server.hashes) if server.hashes else {}
    annotations = {**server.annotations, **password}
    if annotations:
        of_the_pod["annotations"] = annotations
    container = {
        **server.container,
        "ports": [{"containerPort": server.port}],
        "readinessProbe": _probe(server),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(server),
        "spec": {
            "replicas": 1,
            # Two pods would write to the same files.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": of_the_pod, "spec": {**server.pod, "containers": [container]}},
        },
    }


def _probe(server: Server) -> Json:
    asked = {"path": server.ready_at, "port": server.port}
    return {"httpGet": asked, "periodSeconds": _PROBED_EVERY_SECONDS}


def _service(server: Server) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(server, server.service),
        "spec": {
            "type": str(server.service_type),
            "selector": _labels(server),
            "ports": [{"name": "http", "port": server.port, "targetPort": server.port}],
        },
    }


def _labels(server: Server) -> dict[str, str]:
    return labels_of(server.job, server.companion)
