"""The Job that brings files into the volumes of a job before it starts: one step for each entry, in their order.

What a step does is in `load_scripts`. A step that is done leaves a mark beside the files, and is not done again.
"""

import base64
from collections.abc import Iterator, Mapping
from hashlib import sha256

import msgspec

from windlass.jobfile import web_addresses
from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job
from windlass.render import helper_pods
from windlass.render.framework import pods
from windlass.render.storage import load_scripts
from windlass.render.storage.nfs_shares import Share
from windlass.wire import commands

MARK = ".windlass-loaded-"
"""The name of a mark begins so."""

_ARCHIVE = "folder.tar.gz"
_ARCHIVES = "/windlass/folders"
_TRIES = 3
_ARCHIVE_KINDS = {"tar": (".tar",), "tar.gz": (".tar.gz", ".tgz"), "zip": (".zip",)}


class Here(msgspec.Struct, frozen=True):
    """A folder of the machine on which pods run: they see it as it is."""

    path: str
    """Absolute."""
    version: str = ""
    """Another one where its files are others: then they are brought again."""


Folder = bytes | Here
"""Its archive (a tar file, compressed with gzip), or itself."""


def name(job: str) -> str:
    return f"{job}-load-data"


def objects(
    job: Job, folders: Mapping[str, Folder], share: Share | None = None, namespace: str = ""
) -> Iterator[Json]:
    """The ConfigMaps with the folders, and then the Job."""
    if not job.load_data:
        return
    packed = dict(_packed(job, folders))
    for at, data in packed.items():
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": helper_pods.metadata(job, _config_map_name(job, at), namespace),
            "binaryData": {_ARCHIVE: base64.b64encode(data).decode()},
        }
    spec = helper_pods.pod_spec(job, share)
    archives = [{"name": _volume_name(at), "configMap": {"name": _config_map_name(job, at)}} for at in packed]
    steps = [_step(job, at, folders, share) for at in range(len(job.load_data))]
    yield {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": helper_pods.metadata(job, name(job.name), namespace),
        "spec": {
            "backoffLimit": _TRIES - 1,
            "template": {
                "metadata": {"labels": {**job.labels, names.JOB_LABEL: job.name}},
                "spec": {
                    **spec,
                    "initContainers": steps,
                    "containers": [
                        helper_pods.container(
                            job, "done", helper_pods.script(load_scripts.DONE, ()), steps[-1]["image"]
                        )
                    ],
                    "volumes": [*spec["volumes"], *archives],
                },
            },
        },
    }


def marks(job: Job, folders: Mapping[str, Folder]) -> Iterator[str]:
    """The paths of the files that are there when everything is."""
    for at, entry in enumerate(job.load_data):
        mark = next(word for word in _command(job, at, folders) if word.startswith(MARK))
        yield f"{entry.to.rstrip('/')}/{mark}"


def _packed(job: Job, folders: Mapping[str, Folder]) -> Iterator[tuple[int, bytes]]:
    for at, entry in enumerate(job.load_data):
        folder = folders[entry.folder] if entry.folder else None
        if isinstance(folder, bytes):
            yield at, folder


def _step(job: Job, at: int, folders: Mapping[str, Folder], share: Share | None) -> Json:
    entry = job.load_data[at]
    mounts = helper_pods.mounts(job, share, are_written=True)
    made = helper_pods.container(job, f"load-{at}", _command(job, at, folders), entry.image)
    if entry.folder and isinstance(folders[entry.folder], bytes):
        mounts.append({"name": _volume_name(at), "mountPath": _archive_folder(at), "readOnly": True})
    if entry.command is not None:
        made.update(_variables(job))
    return {**made, "volumeMounts": mounts}


def _command(job: Job, at: int, folders: Mapping[str, Folder]) -> list[str]:
    entry = job.load_data[at]
    if entry.url:
        what = (entry.url, entry.sha256.lower(), web_addresses.file_of(entry.url))
        return helper_pods.script(load_scripts.URLS[_kind(entry.url)], (entry.to, _mark("url", *what), *what))
    if entry.command is not None:
        # What Kubernetes makes of the words is what their author wants of it.
        words = commands.words(entry.command, {*job.secrets, *job.env})
        return [*helper_pods.script(load_scripts.COMMAND, (entry.to, _mark("command", *words))), *words]
    folder = folders[entry.folder]
    if isinstance(folder, Here):
        mark = _mark("here", folder.path, folder.version)
        return helper_pods.script(load_scripts.HERE, (entry.to, mark, folder.path))
    mark = _mark("folder", sha256(folder).hexdigest())
    return helper_pods.script(load_scripts.FOLDER, (entry.to, mark, f"{_archive_folder(at)}/{_ARCHIVE}"))


def _kind(url: str) -> str:
    file = web_addresses.file_of(url).lower()
    return next((kind for kind, endings in _ARCHIVE_KINDS.items() if file.endswith(endings)), "file")


def _mark(*what: str) -> str:
    """The same for the same files, in whatever place of the list."""
    return MARK + sha256("\0".join(what).encode()).hexdigest()[:16]


def _variables(job: Job) -> Json:
    """Those of the tasks: a command may need their tokens."""
    task = pods.container(job, helper_pods.leading_role(job))
    return {field: task[field] for field in ("env", "envFrom") if task.get(field)}


def _config_map_name(job: Job, at: int) -> str:
    return f"{name(job.name)}-{at}"


def _volume_name(at: int) -> str:
    return f"windlass-folder-{at}"


def _archive_folder(at: int) -> str:
    return f"{_ARCHIVES}/{at}"
