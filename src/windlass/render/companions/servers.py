"""Render the objects of a companion: a Deployment with one pod, a Service and, if needed, a ConfigMap and a Secret with
password hashes.
"""

from collections.abc import Mapping
from hashlib import sha256
from importlib import resources as package_files

import msgspec

from windlass.model import names
from windlass.model.base import Json, manifest
from windlass.model.companions import Companion, CompanionSpec, ServiceType, password_source
from windlass.model.job import Job, Role
from windlass.model.resources import Resources
from windlass.render import cluster_spec, helper_pods
from windlass.render.companions import password_files
from windlass.render.companions.password_files import ByUser
from windlass.render.framework import pods
from windlass.render.storage.nfs_shares import Share

ADDRESS_VARIABLE = "WINDLASS_ADDRESS"
"""Variable with the address of the pod."""
JOB_VARIABLE = "WINDLASS_JOB"
"""Variable with the name of the job."""
SET_LISTEN_HOST = f"""\
case ${ADDRESS_VARIABLE} in
127.*) host=${ADDRESS_VARIABLE} ;;
*:*) host=:: ;;
*) host=0.0.0.0 ;;
esac
"""
"""Lines of a start script that set `host` to the address to listen on. A pod that shares the host network
listens only on its own loopback address; any other pod listens on all addresses, since port-forward uses loopback."""
_LINKS_CONFIG = "jupyter_server_config.py"
FOLLOW_LINKS = f"""\
mkdir -p .windlass && cat > .windlass/{_LINKS_CONFIG} << 'END' || exit 1
{package_files.files(__package__).joinpath("files", _LINKS_CONFIG).read_text(encoding="utf-8")}END
export JUPYTER_CONFIG_PATH="$PWD/.windlass${{JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}}"
"""
"""Lines of a start script that let a Jupyter server follow the links in its root to the volumes of the job. By
default, Tornado does not follow links out of that folder."""
HOME = "/windlass/home"
"""Root of a Jupyter server, with links to the volumes."""
HOME_VOLUME: Json = {"name": "windlass-home", "emptyDir": {}}
HOME_MOUNT: Json = {"name": HOME_VOLUME["name"], "mountPath": HOME}
WITHOUT_SERVICE_LINKS: Json = {"enableServiceLinks": False}
"""Field of a pod spec. A Service called jupyter would set JUPYTER_PORT, which Jupyter expects to be a number."""

_PROBE_INTERVAL_SECONDS = 2
"""Short, because users wait for readiness."""
_DIGEST_LENGTH = 16


class ResolvedCompanions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a job's companions that are not in the job file."""

    hashes: Mapping[Companion, ByUser] = {}
    """Password hashes of `password_files.hash_password`, by user (`ALL_USERS` for Jupyter). A companion whose
    passwords are in a Secret of the user has no entry."""
    generated: Mapping[Companion, ByUser] = {}
    """Generated passwords, which are shown once."""
    tensorboard_service: str = ""
    """Name of TensorBoard's Service. It differs from the name in the job file if another Service has that name. Empty:
    the name in the job file."""
    is_embedded: bool = False
    """Whether pods run on this machine: a hub then starts processes for its users, not pods."""
    is_plain: bool = False
    """Whether the job is rendered as plain objects, whose tasks have other names than those of a Framework."""
    prefix: str | None = None
    """Prefix of the task names in plain objects (default: `{job}-`)."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    companion: Companion
    job: str
    namespace: str = ""
    labels: dict[str, str] = {}
    """Labels of the job."""
    name: str
    """Name of its objects. The Service may have another name (`service`)."""
    service: str = ""
    """Name of its Service. Empty: `name`."""
    service_type: ServiceType
    port: int
    readiness_path: str
    """Path of the readiness probe."""
    container: Json = {}
    pod: Json = {}
    """Other fields of its pod spec."""
    hashes: ByUser = {}
    """Password hashes for its Secret. A change replaces the pod."""
    secret: str = ""
    """Name of a user-provided Secret with the hashes."""
    files: Mapping[str, str] = {}
    """Files for its ConfigMap."""
    annotations: Mapping[str, str] = {}
    """Annotations of the pod. A change replaces the pod."""

    @property
    def selector(self) -> dict[str, str]:
        return labels_of(self.job, self.companion)

    @property
    def password_volume_source(self) -> Json:
        return {"secret": {"secretName": self.secret or self.name}}


def name_of(job: str, companion: Companion) -> str:
    """Return the name of a companion's objects, except TensorBoard's Service."""
    return f"{job}-{companion}"


def base_server(
    job: Job,
    companion: Companion,
    spec: CompanionSpec,
    resolved: ResolvedCompanions,
    *,
    readiness_path: str,
) -> Server:
    """Return the common fields of a server."""
    secret = password_source(spec).secret
    return Server(
        companion=companion,
        job=job.name,
        namespace=job.namespace,
        labels=job.labels,
        name=name_of(job.name, companion),
        service_type=spec.service,
        port=spec.port,
        readiness_path=readiness_path,
        hashes={} if secret else resolved.hashes.get(companion, {}),
        secret=secret,
    )


def labels_of(job: str, companion: Companion) -> dict[str, str]:
    """Return the labels that select the objects of a companion."""
    return {names.JOB_LABEL: job, names.COMPANION_LABEL: str(companion)}


def objects(server: Server) -> tuple[Json, ...]:
    """Return the Secret and the ConfigMap, if they are not empty, the Deployment and the Service."""
    result = []
    if server.hashes:
        files = password_files.files(server.companion, server.hashes)
        result.append(manifest("v1", "Secret", metadata(server), type="Opaque", stringData=files))
    if server.files:
        result.append(manifest("v1", "ConfigMap", metadata(server), data=dict(server.files)))
    ports = [{"name": "http", "port": server.port, "targetPort": server.port}]
    service = {"type": str(server.service_type), "selector": server.selector, "ports": ports}
    return (
        *result,
        manifest("apps/v1", "Deployment", metadata(server), spec=_deployment_spec(server)),
        manifest("v1", "Service", metadata(server, server.service), spec=service),
    )


def metadata(server: Server, name: str = "") -> Json:
    namespace = {"namespace": server.namespace} if server.namespace else {}
    return {"name": name or server.name, **namespace, "labels": {**server.labels, **server.selector}}


def password_annotation(companion: Companion, hashes: ByUser) -> dict[str, str]:
    """Return a pod annotation that changes with the hashes."""
    return {names.PASSWORD_ANNOTATION: digest(password_files.files(companion, hashes))}


def digest(files: Mapping[str, str]) -> str:
    return sha256(msgspec.json.encode(files, order="sorted")).hexdigest()[:_DIGEST_LENGTH]


def resources_field(resources: Resources | None) -> Json:
    """Return the field `resources` of a container, or nothing if there are no resources."""
    found = pods.resources_of(resources)
    return {"resources": found} if found else {}


def pod_spec(job: Job, share: Share | None) -> Json:
    """Return a pod spec without containers, with the job's volumes and node constraints."""
    spec = helper_pods.pod_spec(job, share)
    del spec["restartPolicy"]
    return {**WITHOUT_SERVICE_LINKS, **spec}


def address_variable() -> Json:
    return {"name": ADDRESS_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def environment(job: Job, resolved: ResolvedCompanions, *own: Json) -> Json:
    """Return `env` and `envFrom` of a container with the job's variables and the addresses of its tasks.

    The variables in `own` override those of the job.
    """
    addresses = cluster_spec.of_job(job, job.namespace, is_plain=resolved.is_plain, prefix=resolved.prefix)
    task = pods.container(job, Role())
    variables = (
        *map(_optional, task["env"]),
        {"name": JOB_VARIABLE, "value": job.name},
        {"name": cluster_spec.VARIABLE, "value": addresses},
        *own,
    )
    by_name = {variable["name"]: variable for variable in variables}
    sources = task.get("envFrom")
    return {"env": list(by_name.values()), **({"envFrom": sources} if sources else {})}


def _optional(variable: Json) -> Json:
    """Make a variable from a Secret optional: a companion may outlive the job and the Secret."""
    key = (variable.get("valueFrom") or {}).get("secretKeyRef")
    return variable if key is None else {**variable, "valueFrom": {"secretKeyRef": {**key, "optional": True}}}


def _deployment_spec(server: Server) -> Json:
    pod_metadata: Json = {"labels": {**server.labels, **server.selector}}
    password = password_annotation(server.companion, server.hashes) if server.hashes else {}
    annotations = {**server.annotations, **password}
    if annotations:
        pod_metadata["annotations"] = annotations
    request = {"path": server.readiness_path, "port": server.port}
    container = {
        **server.container,
        "ports": [{"containerPort": server.port}],
        "readinessProbe": {"httpGet": request, "periodSeconds": _PROBE_INTERVAL_SECONDS},
    }
    return {
        "replicas": 1,
        # Two pods would write to the same files.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": server.selector},
        "template": {"metadata": pod_metadata, "spec": {**server.pod, "containers": [container]}},
    }
