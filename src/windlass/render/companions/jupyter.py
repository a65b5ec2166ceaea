"""Render JupyterLab with a password, the volumes of a job, and a first notebook about its tasks.

No object contains the password: a Secret has its hash.
"""

from collections.abc import Mapping

import msgspec

from windlass.jobfile import volumes
from windlass.model.base import Json
from windlass.model.companions import Companion, Jupyter
from windlass.model.job import Job
from windlass.render import helper_pods
from windlass.render.companions import rbac, servers, starter, volume_links
from windlass.render.companions.servers import ResolvedCompanions, Server
from windlass.render.storage.nfs_shares import Share

CONFIG_FOLDER = "/windlass/jupyter"
STARTER_FOLDER = "/windlass/starter"
NOTEBOOKS = "notebooks"
READY_AT = "/api"
"""Path that needs no password."""

_ALSO_NOTEBOOKS = "windlass-notebooks"
"""Name used if a volume of the job is called `notebooks`. No volume can have this name."""
_CONFIG, _STARTER = "windlass-jupyter", "windlass-starter"

_SCRIPT = f"""\
port=$1 home=$2 own=$3 folder=$4 first=$5
shift 5
if ! command -v jupyter-lab > /dev/null && ! command -v jupyter-notebook > /dev/null; then
  echo "JupyterLab is not installed here: pip install jupyterlab. On a cluster: name an image that has it, as \
jupyter: {{image: …}}" >&2
  exit 127
fi
cd "$home" || exit 1
{volume_links.FOLLOW}while [ $# -gt 0 ]; do
  ln -sfn "$2" "$1"
  shift 2
done
if [ -z "$folder" ]; then
  mkdir -p "$own"
elif mkdir -p "$folder"; then
  ln -sfn "$folder" "$own"
else
  echo "The folder of the notebooks, $folder, cannot be made: name another one, as jupyter: {{folder: …}}" >&2
  exit 1
fi
if [ -n "$first" ] && [ ! -e "$own/${{first##*/}}" ]; then
  cp "$first" "$own/" || echo "Nothing can be written to $folder: notebooks cannot be kept there" >&2
fi
# People may come by the name of another machine, through a port that somebody has opened to them there.
{servers.LISTEN}set -- --ip="$host" --port="$port" --port-retries=0 --no-browser --allow-root
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


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a user's home folder."""

    folders: Mapping[str, str] = {}
    """Paths by name."""
    kept: str = ""
    """Folder for the notebooks, if they are kept."""
    first: str = ""
    """Text of the first notebook. Empty: none."""


def objects(
    job: Job, wanted: Jupyter, resolved: ResolvedCompanions, share: Share | None, namespace: str
) -> tuple[Json, ...]:
    begun = servers.begun(job, Companion.JUPYTER, wanted, resolved, namespace, ready_at=READY_AT)
    server = msgspec.structs.replace(
        begun,
        container=_container(job, wanted, resolved, share),
        pod={
            **servers.pod_spec(job, share),
            "serviceAccountName": wanted.service_account or begun.name,
            "automountServiceAccountToken": True,
        },
    )
    desk = Desk(
        folders={each: volume.at for each, volume in job.volumes.items()},
        kept=wanted.folder,
        first=starter.notebook(job),
    )
    own = () if wanted.service_account else rbac.to_look_at_jobs(servers.metadata(server))
    return (*own, *servers.objects(with_desk(server, desk)))


def _container(job: Job, wanted: Jupyter, resolved: ResolvedCompanions, share: Share | None) -> Json:
    return {
        **helper_pods.container(job, str(Companion.JUPYTER), [], wanted.image),
        **servers.environment(job, resolved, servers.address_variable()),
        "volumeMounts": helper_pods.mounts(job, share),
        **servers.amounts(wanted.resources),
    }


# Servers with or without a job


def with_desk(server: Server, desk: Desk) -> Server:
    """Add JupyterLab to a server whose container has an image."""
    own = {
        "JUPYTER_CONFIG_PATH": CONFIG_FOLDER,
        # Runtime files do not belong into the home folder.
        "JUPYTER_CONFIG_DIR": f"{servers.HOME}/.jupyter",
        "JUPYTER_RUNTIME_DIR": f"{servers.HOME}/.jupyter/runtime",
    }
    variables = {each["name"]: each for each in server.container.get("env") or ()}
    variables |= {name: {"name": name, "value": value} for name, value in own.items()}
    return msgspec.structs.replace(
        server,
        container={
            **server.container,
            "command": _command(server, desk),
            "env": list(variables.values()),
            "volumeMounts": [*(server.container.get("volumeMounts") or ()), *_mounts(desk)],
        },
        pod={**server.pod, "volumes": [*(server.pod.get("volumes") or ()), *_volumes(server, desk)]},
        files={starter.FILE: desk.first} if desk.first else {},
    )


def _command(server: Server, desk: Desk) -> list[str]:
    first = f"{STARTER_FOLDER}/{starter.FILE}" if desk.first else ""
    folders = (text for pair in desk.folders.items() for text in pair)
    arguments = (
        str(server.port),
        servers.HOME,
        own_folder(desk.folders, desk.kept),
        desk.kept,
        first,
        *folders,
    )
    return helper_pods.script(_SCRIPT, arguments)


def own_folder(folders: Mapping[str, str], kept: str) -> str:
    """Return the name of the notebook folder, which a volume may have too."""
    at = folders.get(NOTEBOOKS)
    is_free = at is None or (kept and volumes.normalize(at) == volumes.normalize(kept))
    return NOTEBOOKS if is_free else _ALSO_NOTEBOOKS


def _volumes(server: Server, desk: Desk) -> list[Json]:
    made: list[Json] = [{"name": _CONFIG, **server.passwords}, servers.HOME_VOLUME]
    return [*made, {"name": _STARTER, "configMap": {"name": server.name}}] if desk.first else made


def _mounts(desk: Desk) -> list[Json]:
    made: list[Json] = [
        {"name": _CONFIG, "mountPath": CONFIG_FOLDER, "readOnly": True},
        servers.HOME_MOUNT,
    ]
    if desk.first:
        made.append({"name": _STARTER, "mountPath": STARTER_FOLDER, "readOnly": True})
    return made
