"""JupyterLab behind a password, with the folders of a job and a notebook that begins with its tasks.

The password itself stands in no object: a Secret has what Jupyter makes of one, from which nobody gets it back.
"""

from collections.abc import Mapping

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, Jupyter, ServiceType
from windlass.model.job import Job
from windlass.render import beside, pods
from windlass.render.companions import password_files, rights, servers, starter
from windlass.render.companions.servers import Server
from windlass.render.companions.settled import ALL_USERS, Settled
from windlass.render.shares import Share
from windlass.wire import job_volumes

CONFIG_FOLDER = "/windlass/jupyter"
HOME = "/windlass/home"
"""Its root: the folders that people see are links in it."""
STARTER_FOLDER = "/windlass/starter"
NOTEBOOKS = "notebooks"

_ALSO_NOTEBOOKS = "windlass-notebooks"
"""Where a volume of the job has the other name. No volume has this one."""
_CONFIG, _HOME, _STARTER = "windlass-jupyter", "windlass-home", "windlass-starter"

_SCRIPT = f"""\
port=$1 home=$2 own=$3 folder=$4 first=$5
shift 5
if ! command -v jupyter-lab > /dev/null && ! command -v jupyter-notebook > /dev/null; then
  echo "JupyterLab is not installed here: pip install jupyterlab. On a cluster: name an image that has it, as \
jupyter: {{image: …}}" >&2
  exit 127
fi
cd "$home" || exit 1
while [ $# -gt 0 ]; do
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
{servers.LISTEN}set -- --ip="$host" --port="$port" --port-retries=0 --no-browser --allow-root
page=tree/$own
[ -e "$own/${{first##*/}}" ] && [ -n "$first" ] && page=$page/${{first##*/}}
if command -v jupyter-lab > /dev/null; then
  exec jupyter-lab "$@" --ServerApp.root_dir="$home" --LabApp.default_url="/lab/$page"
fi
exec jupyter-notebook "$@" --NotebookApp.notebook_dir="$home" --NotebookApp.default_url="/$page"
"""
"""Older images have no JupyterLab."""


class Notebook(msgspec.Struct, frozen=True, kw_only=True):
    """A server, whatever it stands beside."""

    name: str
    """Of all its objects."""
    job: str
    """By which it is found."""
    namespace: str = ""
    """Empty where it is left open."""
    labels: dict[str, str] = {}
    port: int
    service_type: ServiceType
    container: Json
    """As far as it is not of this server alone."""
    pod: Json = {}
    password: str = ""
    """Hashed. Empty where a Secret of somebody's own has it."""
    secret: str = ""
    """The name of that Secret."""
    folders: Mapping[str, str] = {}
    """What people see at the beginning, by name: where it is."""
    kept: str = ""
    """The folder of the notebooks, if they are kept."""
    first: str = ""
    """The notebook with which somebody begins, if there is one."""


def objects(
    job: Job, wanted: Jupyter, settled: Settled, share: Share | None, namespace: str
) -> tuple[Json, ...]:
    name = servers.name_of(job.name, Companion.JUPYTER)
    account = wanted.service_account or name
    notebook = Notebook(
        name=name,
        job=job.name,
        namespace=job.namespace or namespace,
        labels=job.labels,
        port=wanted.port,
        service_type=wanted.service,
        container=_container(job, wanted, settled, share),
        pod={
            **servers.pod_spec(job, share),
            "serviceAccountName": account,
            "automountServiceAccountToken": True,
        },
        password=settled.jupyter_hash,
        secret="" if wanted.password_from is None else wanted.password_from.secret,
        folders={each: volume.at for each, volume in job.volumes.items()},
        kept=wanted.folder,
        first=starter.notebook(job),
    )
    own = () if wanted.service_account else rights.to_look_at_jobs(_metadata(notebook))
    return (*own, *server(notebook))


def server(notebook: Notebook) -> tuple[Json, ...]:
    """The Secret, the ConfigMap, the Deployment and the Service, as far as there is something in them."""
    made = [] if notebook.secret else [_secret(notebook)]
    if notebook.first:
        made.append(_starter(notebook))
    return (*made, *servers.objects(_server(notebook)))


def _container(job: Job, wanted: Jupyter, settled: Settled, share: Share | None) -> Json:
    made: Json = {
        **beside.container(job, str(Companion.JUPYTER), [], wanted.image),
        **servers.environment(job, settled, servers.address_variable()),
        "volumeMounts": beside.mounts(job, share),
    }
    resources = pods.resources_of(wanted.resources)
    return {**made, "resources": resources} if resources else made


# What is told to it


def _secret(notebook: Notebook) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(notebook),
        "type": "Opaque",
        "stringData": password_files.files(Companion.JUPYTER, {ALL_USERS: notebook.password}),
    }


def _starter(notebook: Notebook) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(notebook),
        "data": {starter.FILE: notebook.first},
    }


def _metadata(notebook: Notebook) -> Json:
    return servers.metadata(_server(notebook), notebook.name)


# What runs


def _server(notebook: Notebook) -> Server:
    password = password_files.digest(Companion.JUPYTER, {ALL_USERS: notebook.password})
    return Server(
        companion=Companion.JUPYTER,
        job=notebook.job,
        namespace=notebook.namespace,
        labels=notebook.labels,
        name=notebook.name,
        service=notebook.name,
        service_type=notebook.service_type,
        ports={"http": notebook.port},
        container=_with_a_server(notebook),
        pod={**notebook.pod, "volumes": [*(notebook.pod.get("volumes") or ()), *_volumes(notebook)]},
        annotations={names.PASSWORD_ANNOTATION: password} if notebook.password else {},
    )


def _with_a_server(notebook: Notebook) -> Json:
    own = {
        "JUPYTER_CONFIG_PATH": CONFIG_FOLDER,
        # What it writes about itself belongs to nobody's home folder.
        "JUPYTER_CONFIG_DIR": f"{HOME}/.jupyter",
        "JUPYTER_RUNTIME_DIR": f"{HOME}/.jupyter/runtime",
    }
    variables = {each["name"]: each for each in notebook.container.get("env") or ()}
    variables |= {name: {"name": name, "value": value} for name, value in own.items()}
    return {
        **notebook.container,
        "command": _command(notebook),
        "ports": [{"containerPort": notebook.port}],
        "env": list(variables.values()),
        "readinessProbe": {"httpGet": {"path": "/api", "port": notebook.port}},
        "volumeMounts": [*(notebook.container.get("volumeMounts") or ()), *_mounts(notebook)],
    }


def _command(notebook: Notebook) -> list[str]:
    first = f"{STARTER_FOLDER}/{starter.FILE}" if notebook.first else ""
    links = (text for pair in notebook.folders.items() for text in pair)
    arguments = (str(notebook.port), HOME, _own_folder(notebook), notebook.kept, first, *links)
    return beside.script(_SCRIPT, arguments)


def _own_folder(notebook: Notebook) -> str:
    """What the folder of the notebooks is called. A volume may have that name, and may be that folder."""
    at = notebook.folders.get(NOTEBOOKS)
    is_free = at is None or (notebook.kept and job_volumes.normal(at) == job_volumes.normal(notebook.kept))
    return NOTEBOOKS if is_free else _ALSO_NOTEBOOKS


def _volumes(notebook: Notebook) -> list[Json]:
    made: list[Json] = [
        {"name": _CONFIG, "secret": {"secretName": notebook.secret or notebook.name}},
        {"name": _HOME, "emptyDir": {}},
    ]
    return [*made, {"name": _STARTER, "configMap": {"name": notebook.name}}] if notebook.first else made


def _mounts(notebook: Notebook) -> list[Json]:
    made: list[Json] = [
        {"name": _CONFIG, "mountPath": CONFIG_FOLDER, "readOnly": True},
        {"name": _HOME, "mountPath": HOME},
    ]
    if notebook.first:
        made.append({"name": _STARTER, "mountPath": STARTER_FOLDER, "readOnly": True})
    return made
