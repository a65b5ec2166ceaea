"""Render JupyterHub, whose users get servers with the job's data: pods, or processes on an embedded cluster.

Its settings are in hub.json; its configuration, which reads them, is in `files/`.
"""

import functools
from collections.abc import Mapping
from importlib import resources

import msgspec

from windlass import __version__
from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import HUB_INTERNAL_PORT, Companion, Hub
from windlass.model.job import Job
from windlass.render import helper_pods
from windlass.render.companions import jupyter, password_files, rbac, servers
from windlass.render.companions.servers import ResolvedCompanions, Server
from windlass.render.storage import volumes
from windlass.render.storage.nfs_shares import Share

HUB_IMAGE = f"windlass-hub:{__version__}"
"""Default image: JupyterHub with KubeSpawner."""

_FILES = ("files/jupyterhub_config.py", "files/hub_proxy.py", "hub_support.py", "passwords.py")
_CONFIGURATION = "jupyterhub_config.py"
_SETTINGS = "hub.json"
_EXTRA_CONFIGURATION = "added_config.py"
_CONFIGURATION_FOLDER = "/windlass/hub"
_PASSWORD_FOLDER = "/windlass/passwords"  # noqa: S105
_STATE_FOLDER = "/windlass/hub-state"
_CONFIGURATION_VOLUME, _PASSWORD_VOLUME = "windlass-hub", "windlass-passwords"
_STATE_VOLUME = "windlass-hub-state"

_START_HUB = f"""\
if ! command -v jupyterhub > /dev/null; then
  echo "JupyterHub is not installed. On this machine: pip install jupyterhub jupyterlab. On a cluster: remove \
hub: {{image: …}} to use the default image, or set an image with jupyterhub and jupyterhub-kubespawner" >&2
  exit 127
fi
cd {_STATE_FOLDER} && exec jupyterhub -f {_CONFIGURATION_FOLDER}/{_CONFIGURATION}
"""
_START_USER_SERVER = f"""\
for program in jupyterhub-singleuser jupyter-lab; do
  if ! command -v $program > /dev/null; then
    echo "$program is not installed. On this machine: pip install jupyterhub jupyterlab. On a cluster: set an image \
that has it with hub: {{userImage: …}}" >&2
    exit 127
  fi
done
cd "$HOME" || exit 1
own=$1
shift
{servers.FOLLOW_LINKS}if [ -n "$WINDLASS_NOTEBOOKS" ]; then
  mkdir -p "$WINDLASS_NOTEBOOKS" && ln -sfn "$WINDLASS_NOTEBOOKS" "$own" || exit 1
else
  mkdir -p "$own" || exit 1
fi
while [ "$1" != -- ]; do
  ln -sfn "${{1#*=}}" "${{1%%=*}}"
  shift
done
shift
export JUPYTERHUB_ROOT_DIR="$HOME"
exec "$@"
"""
"""Start script of a user's server. Arguments: the name of the notebook folder, a link NAME=PATH for each volume, `--`,
and the command."""


def objects(job: Job, spec: Hub, resolved: ResolvedCompanions, share: Share | None) -> tuple[Json, ...]:
    files = _files(job, spec, resolved, share)
    base = servers.base_server(job, Companion.HUB, spec, resolved, readiness_path="/hub/health")
    server = msgspec.structs.replace(
        base,
        container=_container(job, spec, resolved, share),
        pod=_pod(job, base, resolved, share),
        files=files,
        annotations={names.CONFIGURATION_ANNOTATION: servers.digest(files)},
    )
    account_objects = () if resolved.is_embedded else rbac.pod_spawner_account(servers.metadata(server))
    return (*account_objects, *servers.objects(server))


class _Settings(msgspec.Struct, frozen=True):
    """The fields of hub.json that `users_in` reads."""

    users: tuple[str, ...] = ()


def users_in(files: Mapping[str, str]) -> list[str]:
    """Return the users in the data of a hub's ConfigMap, in lower case as in the hub. Empty: all users, or
    unknown."""
    try:
        settings = msgspec.json.decode(files.get(_SETTINGS, "{}"), type=_Settings)
    except msgspec.MsgspecError:
        return []
    return [user.lower() for user in settings.users]


# The hub


def _container(job: Job, spec: Hub, resolved: ResolvedCompanions, share: Share | None) -> Json:
    """Render the hub's container.

    On an embedded cluster, it has the environment of the tasks, which users' servers inherit.
    """
    own = (
        servers.address_variable(),
        {"name": "WINDLASS_PASSWORDS", "value": f"{_PASSWORD_FOLDER}/{password_files.HUB_FILE}"},
    )
    image = spec.image or ("" if resolved.is_embedded else HUB_IMAGE)
    return {
        **helper_pods.container(job, str(Companion.HUB), helper_pods.script(_START_HUB, ()), image),
        **(servers.environment(job, resolved, *own) if resolved.is_embedded else {"env": list(own)}),
        "volumeMounts": [
            *(_task_mounts(job, share) if resolved.is_embedded else ()),
            {"name": _CONFIGURATION_VOLUME, "mountPath": _CONFIGURATION_FOLDER, "readOnly": True},
            {"name": _PASSWORD_VOLUME, "mountPath": _PASSWORD_FOLDER, "readOnly": True},
            {"name": _STATE_VOLUME, "mountPath": _STATE_FOLDER},
        ],
    }


def _pod(job: Job, server: Server, resolved: ResolvedCompanions, share: Share | None) -> Json:
    pod = servers.pod_spec(job, share)
    own = [
        {"name": _CONFIGURATION_VOLUME, "configMap": {"name": server.name}},
        {"name": _PASSWORD_VOLUME, **server.password_volume_source},
        {"name": _STATE_VOLUME, "emptyDir": {}},
    ]
    if resolved.is_embedded:
        return {**pod, "volumes": [*pod["volumes"], *volumes.shm_volumes(job, None, job.shm_size), *own]}
    account = {"serviceAccountName": server.name, "automountServiceAccountToken": True}
    return {**pod, **account, "volumes": own}


def _task_mounts(job: Job, share: Share | None) -> list[Json]:
    return [*helper_pods.mounts(job, share), *volumes.shm_mounts(job)]


# Settings


def _files(job: Job, spec: Hub, resolved: ResolvedCompanions, share: Share | None) -> dict[str, str]:
    settings = msgspec.json.encode(_settings(job, spec, resolved, share), order="sorted")
    files = {path.rpartition("/")[2]: _read_file(path) for path in _FILES}
    added = {_EXTRA_CONFIGURATION: spec.config} if spec.config else {}
    return {**files, _SETTINGS: msgspec.json.format(settings).decode() + "\n", **added}


@functools.cache
def _read_file(path: str) -> str:
    return resources.files(__package__).joinpath(path).read_text(encoding="utf-8")


def _settings(job: Job, spec: Hub, resolved: ResolvedCompanions, share: Share | None) -> Json:
    name = servers.name_of(job.name, Companion.HUB)
    mount_paths = {volume_name: volume.at for volume_name, volume in job.volumes.items()}
    notebook_folder = jupyter.notebook_folder_name(mount_paths, "")
    arguments = (notebook_folder, *(f"{volume_name}={at}" for volume_name, at in mount_paths.items()), "--")
    settings: Json = {
        "name": name,
        "port": spec.port,
        "hubPort": HUB_INTERNAL_PORT,
        "users": list(spec.users),
        "admins": list(spec.admins),
        "folder": spec.folder,
        "notebooks": notebook_folder,
        "isLocal": resolved.is_embedded,
    }
    if resolved.is_embedded:
        return {**settings, "start": ["/bin/sh", "-c", _START_USER_SERVER, "windlass", *arguments]}
    command = helper_pods.script(_START_USER_SERVER, arguments)
    return {**settings, "pod": _user_pod(job, spec, resolved, share, command)}


def _user_pod(
    job: Job, spec: Hub, resolved: ResolvedCompanions, share: Share | None, command: list[str]
) -> Json:
    """Return the fields of users' pods. They do not have the companion label: the hub's Service would select them."""
    pod = servers.pod_spec(job, share)
    container = helper_pods.container(job, "", command, spec.user_image)
    security_context = container.get("securityContext")
    shm = volumes.shm_volumes(job, spec.resources, job.shm_size)
    return {
        "image": container["image"],
        "labels": {**job.labels, names.JOB_LABEL: job.name},
        "spec": {**pod, "volumes": [*pod["volumes"], *shm, servers.HOME_VOLUME]},
        "container": {
            "command": command,
            **servers.environment(job, resolved, {"name": "HOME", "value": servers.HOME}),
            "volumeMounts": [*_task_mounts(job, share), servers.HOME_MOUNT],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **({"securityContext": security_context} if security_context else {}),
            **servers.resources_field(spec.resources),
        },
    }
