"""Render JupyterLab with a password, the volumes of a job, and a first notebook about its tasks.

No object contains the password: a Secret has its hash.
"""

from collections.abc import Mapping

import msgspec

from windlass.jobfile import volumes as jobfile_volumes
from windlass.model.base import Json
from windlass.model.companions import Companion, Jupyter
from windlass.model.job import Job
from windlass.render import helper_pods
from windlass.render.companions import rbac, servers, starter
from windlass.render.companions.servers import ResolvedCompanions, Server
from windlass.render.storage import volumes as job_volumes
from windlass.render.storage.nfs_shares import Share

CONFIG_FOLDER = "/windlass/jupyter"
STARTER_FOLDER = "/windlass/starter"
NOTEBOOKS = "notebooks"
READINESS_PATH = "/api"
"""Path that needs no password."""

_OTHER_NOTEBOOKS = "windlass-notebooks"
"""Name used if `notebooks` is the name of a volume that is not the notebook folder. It cannot be the name of a
volume."""
_CONFIG, _STARTER = "windlass-jupyter", "windlass-starter"

_SCRIPT = f"""\
port=$1 home=$2 own=$3 folder=$4 first=$5
shift 5
if ! command -v jupyter-lab > /dev/null && ! command -v jupyter-notebook > /dev/null; then
  echo "JupyterLab is not installed. On this machine: pip install jupyterlab. On a cluster: set an image that has it \
with jupyter: {{image: …}}" >&2
  exit 127
fi
cd "$home" || exit 1
{servers.FOLLOW_LINKS}while [ $# -gt 0 ]; do
  ln -sfn "$2" "$1"
  shift 2
done
if [ -z "$folder" ]; then
  mkdir -p "$own"
elif mkdir -p "$folder"; then
  ln -sfn "$folder" "$own"
else
  echo "cannot create the notebook folder $folder: set another one with jupyter: {{folder: …}}" >&2
  exit 1
fi
if [ -n "$first" ] && [ ! -e "$own/${{first##*/}}" ]; then
  cp "$first" "$own/" || echo "cannot write to $folder: notebooks cannot be saved there" >&2
fi
# allow_remote_access: users may connect to another machine that forwards the port, by the host name of that machine.
{servers.SET_LISTEN_HOST}set -- --ip="$host" --port="$port" --port-retries=0 --no-browser --allow-root
page=tree/$own
[ -e "$own/${{first##*/}}" ] && [ -n "$first" ] && page=$page/${{first##*/}}
if command -v jupyter-lab > /dev/null; then
  exec jupyter-lab "$@" --ServerApp.allow_remote_access=True --ServerApp.root_dir="$home" \
    --LabApp.default_url="/lab/$page"
fi
exec jupyter-notebook "$@" --NotebookApp.allow_remote_access=True --NotebookApp.notebook_dir="$home" \
  --NotebookApp.default_url="/$page"
"""
"""The script falls back to jupyter-notebook for older images."""


class HomeFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the home folder of a Jupyter server."""

    folders: Mapping[str, str] = {}
    """Paths of the folders to link, by the names of the links."""
    notebook_folder: str = ""
    """Path for the notebooks in a volume. Empty: they are deleted with the server."""
    first_notebook: str = ""
    """Text of the first notebook. Empty: none."""


def objects(job: Job, spec: Jupyter, resolved: ResolvedCompanions, share: Share | None) -> tuple[Json, ...]:
    base = servers.base_server(job, Companion.JUPYTER, spec, resolved, readiness_path=READINESS_PATH)
    pod = servers.pod_spec(job, share)
    server = msgspec.structs.replace(
        base,
        container=_container(job, spec, resolved, share),
        pod={
            **pod,
            "volumes": [*pod["volumes"], *job_volumes.shm_volumes(job, spec.resources, job.shm_size)],
            "serviceAccountName": spec.service_account or base.name,
            "automountServiceAccountToken": True,
        },
    )
    home = HomeFolder(
        folders={each: volume.at for each, volume in job.volumes.items()},
        notebook_folder=spec.folder,
        first_notebook=starter.notebook(job),
    )
    account_objects = () if spec.service_account else rbac.job_reader_account(servers.metadata(server))
    return (*account_objects, *servers.objects(with_jupyterlab(server, home)))


def _container(job: Job, spec: Jupyter, resolved: ResolvedCompanions, share: Share | None) -> Json:
    return {
        **helper_pods.container(job, str(Companion.JUPYTER), [], spec.image),
        **servers.environment(job, resolved, servers.address_variable()),
        "volumeMounts": [*helper_pods.mounts(job, share), *job_volumes.shm_mounts(job)],
        **servers.resources_field(spec.resources),
    }


# Servers with or without a job


def with_jupyterlab(server: Server, home: HomeFolder) -> Server:
    """Add JupyterLab to a server whose container has an image."""
    jupyter_variables = {
        "JUPYTER_CONFIG_PATH": CONFIG_FOLDER,
        # Keep configuration and runtime files in a hidden subfolder.
        "JUPYTER_CONFIG_DIR": f"{servers.HOME}/.jupyter",
        "JUPYTER_RUNTIME_DIR": f"{servers.HOME}/.jupyter/runtime",
    }
    variables = {variable["name"]: variable for variable in server.container.get("env") or ()}
    variables |= {name: {"name": name, "value": value} for name, value in jupyter_variables.items()}
    volumes: list[Json] = [{"name": _CONFIG, **server.password_volume_source}, servers.HOME_VOLUME]
    mounts: list[Json] = [
        {"name": _CONFIG, "mountPath": CONFIG_FOLDER, "readOnly": True},
        servers.HOME_MOUNT,
    ]
    if home.first_notebook:
        volumes.append({"name": _STARTER, "configMap": {"name": server.name}})
        mounts.append({"name": _STARTER, "mountPath": STARTER_FOLDER, "readOnly": True})
    return msgspec.structs.replace(
        server,
        container={
            **server.container,
            "command": _command(server, home),
            "env": list(variables.values()),
            "volumeMounts": [*(server.container.get("volumeMounts") or ()), *mounts],
        },
        pod={**server.pod, "volumes": [*(server.pod.get("volumes") or ()), *volumes]},
        files={starter.FILE: home.first_notebook} if home.first_notebook else {},
    )


def _command(server: Server, home: HomeFolder) -> list[str]:
    first = f"{STARTER_FOLDER}/{starter.FILE}" if home.first_notebook else ""
    own = notebook_folder_name(home.folders, home.notebook_folder)
    links = (text for link in home.folders.items() for text in link)
    return helper_pods.script(
        _SCRIPT, (str(server.port), servers.HOME, own, home.notebook_folder, first, *links)
    )


def notebook_folder_name(folders: Mapping[str, str], path: str) -> str:
    """Return the name of the notebook folder in the home folder: `notebooks`, or another name if a volume with this
    name has a path other than `path`."""
    at = folders.get(NOTEBOOKS)
    is_free = at is None or (path and jobfile_volumes.normalize(at) == jobfile_volumes.normalize(path))
    return NOTEBOOKS if is_free else _OTHER_NOTEBOOKS
