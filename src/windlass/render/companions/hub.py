"""JupyterHub, whose users get servers next to the job's data: pods of a cluster, or processes beside the hub.

What it is told stands in hub.json; what it does with that, in `files/`.
"""

import functools
from hashlib import sha256
from importlib import resources

import msgspec

from windlass import __version__
from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, Hub
from windlass.model.job import Job
from windlass.render import beside, pods
from windlass.render.companions import password_files, servers
from windlass.render.companions.servers import Server
from windlass.render.companions.settled import Settled
from windlass.render.shares import Share

HUB_IMAGE = f"windlass-hub:{__version__}"
"""Where a job names no other one: JupyterHub with KubeSpawner."""

_FILES = (
    *("files/jupyterhub_config.py", "files/hub_proxy.py"),
    *("hub_folders.py", "hub_heads.py", "passwords.py"),
)
_CONFIGURATION = "jupyterhub_config.py"
_SETTINGS = "hub.json"
_ADDED = "added_config.py"
_CONFIGURATION_FOLDER = "/windlass/hub"
_PASSWORD_FOLDER = "/windlass/passwords"  # noqa: S105
_STATE_FOLDER = "/windlass/hub-state"
_HOME = "/windlass/home"
_CONFIGURATION_VOLUME, _PASSWORD_VOLUME = "windlass-hub", "windlass-passwords"
_STATE_VOLUME, _HOME_VOLUME = "windlass-hub-state", "windlass-home"
_WITHIN_PORTS = (8081, 8082)
"""Where the hub itself listens, for the proxy alone: the first that people do not open."""

_SERVE = f"""\
if ! command -v jupyterhub > /dev/null; then
  echo "JupyterHub is not installed here: pip install jupyterhub jupyterlab. On a cluster: leave hub: {{image: …}} out \
for that of Windlass, or name one that has jupyterhub and jupyterhub-kubespawner" >&2
  exit 127
fi
cd {_STATE_FOLDER} && exec jupyterhub -f {_CONFIGURATION_FOLDER}/{_CONFIGURATION}
"""
_START = """\
for program in jupyterhub-singleuser jupyter-lab; do
  if ! command -v $program > /dev/null; then
    echo "$program is not installed here: pip install jupyterhub jupyterlab. On a cluster: name an image that has \
them, as hub: {userImage: …}" >&2
    exit 127
  fi
done
cd "$HOME" || exit 1
if [ -n "$WINDLASS_NOTEBOOKS" ]; then
  mkdir -p "$WINDLASS_NOTEBOOKS" && ln -sfn "$WINDLASS_NOTEBOOKS" notebooks || exit 1
else
  mkdir -p notebooks || exit 1
fi
while [ "$1" != -- ]; do
  name=${1%%=*}
  [ "$name" = notebooks ] || ln -sfn "${1#*=}" "$name"
  shift
done
shift
export JUPYTERHUB_ROOT_DIR="$HOME"
exec "$@"
"""
"""Of each user's server, in a home of its own: a link to each volume, as NAME=PATH says, then -- and the server."""


def objects(job: Job, wanted: Hub, settled: Settled, share: Share | None, namespace: str) -> tuple[Json, ...]:
    name = servers.name_of(job.name, Companion.HUB)
    files = _files(job, wanted, settled, share)
    password = password_files.digest(Companion.HUB, settled.hub_hashes)
    server = Server(
        companion=Companion.HUB,
        job=job.name,
        namespace=job.namespace or namespace,
        labels=job.labels,
        name=name,
        service=name,
        service_type=wanted.service,
        ports={"http": wanted.port},
        container=_container(job, wanted, settled, share),
        pod=_pod(job, wanted, settled, share),
        annotations={
            names.CONFIGURATION_ANNOTATION: _digest(msgspec.json.encode(files).decode()),
            **({} if _own_secret(wanted) else {names.PASSWORD_ANNOTATION: password}),
        },
    )
    metadata = servers.metadata(server, name)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "stringData": password_files.files(Companion.HUB, settled.hub_hashes),
    }
    return (
        *(() if settled.is_one_machine else _rights(metadata)),
        *(() if _own_secret(wanted) else (secret,)),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files},
        *servers.objects(server),
    )


def _own_secret(wanted: Hub) -> str:
    """That of the user, where it has the hashes."""
    return wanted.password_from.secret if wanted.password_from is not None else ""


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _rights(metadata: Json) -> tuple[Json, ...]:
    """Pods for its users, and itself to be their owner: what KubeSpawner asks for, and no more."""
    name = metadata["name"]
    group = "rbac.authorization.k8s.io"
    rules: list[Json] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "delete"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": [name], "verbs": ["get"]},
    ]
    subject = {"kind": "ServiceAccount", "name": name}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [subject],
        },
    )


# The hub


def _container(job: Job, wanted: Hub, settled: Settled, share: Share | None) -> Json:
    """On one machine it has what the job's tasks have, since so have the servers that it starts."""
    own = (
        servers.address_variable(),
        {"name": "WINDLASS_PASSWORDS", "value": f"{_PASSWORD_FOLDER}/{password_files.OF_HUB}"},
    )
    image = wanted.image or ("" if settled.is_one_machine else HUB_IMAGE)
    return {
        **beside.container(job, str(Companion.HUB), beside.script(_SERVE, ()), image),
        "ports": [{"containerPort": wanted.port}],
        **(servers.environment(job, settled, *own) if settled.is_one_machine else {"env": list(own)}),
        "readinessProbe": {"httpGet": {"path": "/hub/health", "port": wanted.port}},
        "volumeMounts": [
            *(beside.mounts(job, share) if settled.is_one_machine else ()),
            {"name": _CONFIGURATION_VOLUME, "mountPath": _CONFIGURATION_FOLDER, "readOnly": True},
            {"name": _PASSWORD_VOLUME, "mountPath": _PASSWORD_FOLDER, "readOnly": True},
            {"name": _STATE_VOLUME, "mountPath": _STATE_FOLDER},
        ],
    }


def _pod(job: Job, wanted: Hub, settled: Settled, share: Share | None) -> Json:
    name = servers.name_of(job.name, Companion.HUB)
    spec = servers.pod_spec(job, share)
    own = [
        {"name": _CONFIGURATION_VOLUME, "configMap": {"name": name}},
        {"name": _PASSWORD_VOLUME, "secret": {"secretName": _own_secret(wanted) or name}},
        {"name": _STATE_VOLUME, "emptyDir": {}},
    ]
    if settled.is_one_machine:
        return {**spec, "volumes": [*spec["volumes"], *own]}
    return {**spec, "serviceAccountName": name, "automountServiceAccountToken": True, "volumes": own}


# What it is told


def _files(job: Job, wanted: Hub, settled: Settled, share: Share | None) -> dict[str, str]:
    settings = msgspec.json.encode(_settings(job, wanted, settled, share), order="sorted")
    files = {path.rpartition("/")[2]: _text(path) for path in _FILES}
    added = {_ADDED: wanted.config} if wanted.config else {}
    return {**files, _SETTINGS: msgspec.json.format(settings).decode() + "\n", **added}


@functools.cache
def _text(path: str) -> str:
    return resources.files(__package__).joinpath(path).read_text(encoding="utf-8")


def _settings(job: Job, wanted: Hub, settled: Settled, share: Share | None) -> Json:
    name = servers.name_of(job.name, Companion.HUB)
    links = (*(f"{name}={volume.at}" for name, volume in job.volumes.items()), "--")
    settings: Json = {
        "name": name,
        "port": wanted.port,
        "hubPort": next(port for port in _WITHIN_PORTS if port != wanted.port),
        "users": list(wanted.users),
        "admins": list(wanted.admins),
        "folder": wanted.folder,
        "isLocal": settled.is_one_machine,
    }
    if settled.is_one_machine:
        return {**settings, "start": ["/bin/sh", "-c", _START, "windlass", *links]}
    return {**settings, "pod": _pod_of_a_user(job, wanted, settled, share, beside.script(_START, links))}


def _pod_of_a_user(job: Job, wanted: Hub, settled: Settled, share: Share | None, command: list[str]) -> Json:
    """Without the hub's label, so that nobody who looks for the hub finds a user."""
    spec = servers.pod_spec(job, share)
    container = beside.container(job, "", command, wanted.user_image)
    user = container.get("securityContext")
    amounts = pods.resources_of(wanted.resources)
    return {
        "image": container["image"],
        "labels": {**job.labels, names.JOB_LABEL: job.name},
        "spec": {**spec, "volumes": [*spec["volumes"], {"name": _HOME_VOLUME, "emptyDir": {}}]},
        "container": {
            "command": command,
            **servers.environment(job, settled, {"name": "HOME", "value": _HOME}),
            "volumeMounts": [*beside.mounts(job, share), {"name": _HOME_VOLUME, "mountPath": _HOME}],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **({"securityContext": user} if user else {}),
            **({"resources": amounts} if amounts else {}),
        },
    }
