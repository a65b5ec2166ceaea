"""Render the Job that loads data into the volumes of a job before it starts: one init container per entry, in order.

The scripts are in `load_scripts`. A completed entry leaves a marker file next to the data and is not repeated.
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

MARKER_PREFIX = ".windlass-loaded-"

_ARCHIVE = "folder.tar.gz"
_ARCHIVES = "/windlass/folders"
_TRIES = 3
_ARCHIVE_KINDS = {"tar": (".tar",), "tar.gz": (".tar.gz", ".tgz"), "zip": (".zip",)}


class LocalFolder(msgspec.Struct, frozen=True):
    """A folder of the machine on which the pods run, which they read in place."""

    path: str
    """Absolute path."""
    version: str = ""
    """Digest of its contents: changed files are loaded again."""


Folder = bytes | LocalFolder
"""A gzip-compressed tar archive of a folder, or the folder itself."""


def name(job: str) -> str:
    return f"{job}-load-data"


def objects(
    job: Job, folders: Mapping[str, Folder], share: Share | None = None, namespace: str = ""
) -> Iterator[Json]:
    """Yield the ConfigMaps with the folders, then the Job."""
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


def marker_paths(job: Job, folders: Mapping[str, Folder]) -> Iterator[str]:
    """Yield the paths of the marker files, which exist when all data is loaded."""
    for at, entry in enumerate(job.load_data):
        marker = next(word for word in _command(job, at, folders) if word.startswith(MARKER_PREFIX))
        yield f"{entry.to.rstrip('/')}/{marker}"


def _packed(job: Job, folders: Mapping[str, Folder]) -> Iterator[tuple[int, bytes]]:
    for at, entry in enumerate(job.load_data):
        folder = folders[entry.folder] if entry.folder else None
        if isinstance(folder, bytes):
            yield at, folder


def _step(job: Job, at: int, folders: Mapping[str, Folder], share: Share | None) -> Json:
    entry = job.load_data[at]
    mounts = helper_pods.mounts(job, share, are_written=True)
    container = helper_pods.container(job, f"load-{at}", _command(job, at, folders), entry.image)
    if entry.folder and isinstance(folders[entry.folder], bytes):
        mounts.append({"name": _volume_name(at), "mountPath": _archive_folder(at), "readOnly": True})
    if entry.command is not None:
        container.update(_variables(job))
    return {**container, "volumeMounts": mounts}


def _command(job: Job, at: int, folders: Mapping[str, Folder]) -> list[str]:
    entry = job.load_data[at]
    if entry.url:
        what = (entry.url, entry.sha256.lower(), web_addresses.file_of(entry.url))
        return helper_pods.script(
            load_scripts.URLS[_kind(entry.url)], (entry.to, _marker("url", *what), *what)
        )
    if entry.command is not None:
        # Variables in the words are left for Kubernetes to expand.
        words = commands.words(entry.command, {*job.secrets, *job.env})
        return [*helper_pods.script(load_scripts.COMMAND, (entry.to, _marker("command", *words))), *words]
    folder = folders[entry.folder]
    if isinstance(folder, LocalFolder):
        marker = _marker("here", folder.path, folder.version)
        return helper_pods.script(load_scripts.LOCAL_FOLDER, (entry.to, marker, folder.path))
    marker = _marker("folder", sha256(folder).hexdigest())
    return helper_pods.script(
        load_scripts.ARCHIVED_FOLDER, (entry.to, marker, f"{_archive_folder(at)}/{_ARCHIVE}")
    )


def _kind(url: str) -> str:
    file = web_addresses.file_of(url).lower()
    return next((kind for kind, endings in _ARCHIVE_KINDS.items() if file.endswith(endings)), "file")


def _marker(*source: str) -> str:
    """Return the name of the marker file. It does not depend on the position in the list."""
    return MARKER_PREFIX + sha256("\0".join(source).encode()).hexdigest()[:16]


def _variables(job: Job) -> Json:
    """Return the variables of the tasks, because a command may need their tokens."""
    task = pods.container(job, helper_pods.leading_role(job))
    return {field: task[field] for field in ("env", "envFrom") if task.get(field)}


def _config_map_name(job: Job, at: int) -> str:
    return f"{name(job.name)}-{at}"


def _volume_name(at: int) -> str:
    return f"windlass-folder-{at}"


def _archive_folder(at: int) -> str:
    return f"{_ARCHIVES}/{at}"
