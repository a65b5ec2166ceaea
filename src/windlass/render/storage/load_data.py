"""Render the Job that loads data into volumes before a Windlass job starts: one init container per entry, in order.

The scripts are in `load_scripts`. A completed entry leaves a marker file next to the data and is not repeated.
"""

import base64
from collections.abc import Iterator, Mapping
from hashlib import sha256

import msgspec

from windlass.jobfile import web_addresses
from windlass.model.base import Json, manifest
from windlass.model.job import Job
from windlass.render import helper_pods
from windlass.render.framework import pods
from windlass.render.storage import load_scripts
from windlass.render.storage.nfs_shares import Share
from windlass.wire import commands

MARKER_PREFIX = ".windlass-loaded-"

_ARCHIVE = "folder.tar.gz"
_ARCHIVES_FOLDER = "/windlass/folders"
_MAX_ATTEMPTS = 3
_ARCHIVE_SUFFIXES = {"tar": (".tar",), "tar.gz": (".tar.gz", ".tgz"), "zip": (".zip",)}


class LocalFolder(msgspec.Struct, frozen=True):
    """A folder of the machine on which the pods run. The pods read it in place."""

    path: str
    """Absolute path."""
    version: str = ""
    """Digest of its contents: changed files are loaded again."""


Folder = bytes | LocalFolder
"""A gzip-compressed tar archive of a folder, or the folder itself."""


def name(job: str) -> str:
    return f"{job}-load-data"


def objects(job: Job, folders: Mapping[str, Folder], share: Share | None = None) -> Iterator[Json]:
    """Yield the ConfigMaps with the archived folders, then the Job."""
    if not job.load_data:
        return
    spec = helper_pods.pod_spec(job, share)
    for index, entry in enumerate(job.load_data):
        folder = folders[entry.folder] if entry.folder else None
        if isinstance(folder, bytes):
            config_map = f"{name(job.name)}-{index}"
            metadata = helper_pods.metadata(job, config_map)
            data = {_ARCHIVE: base64.b64encode(folder).decode()}
            yield manifest("v1", "ConfigMap", metadata, binaryData=data)
            spec["volumes"].append({"name": _volume_name(index), "configMap": {"name": config_map}})
    steps = [_step(job, index, folders, share) for index in range(len(job.load_data))]
    done = helper_pods.script(load_scripts.DONE, ())
    spec |= {
        "initContainers": steps,
        "containers": [helper_pods.container(job, "done", done, steps[-1]["image"])],
    }
    metadata = helper_pods.metadata(job, name(job.name))
    template = {"metadata": {"labels": metadata["labels"]}, "spec": spec}
    job_spec = {"backoffLimit": _MAX_ATTEMPTS - 1, "template": template}
    yield manifest("batch/v1", "Job", metadata, spec=job_spec)


def marker_paths(job: Job, folders: Mapping[str, Folder]) -> Iterator[str]:
    """Yield the paths of the marker files, which exist when all data is loaded."""
    for index, entry in enumerate(job.load_data):
        marker = next(word for word in _command(job, index, folders) if word.startswith(MARKER_PREFIX))
        yield f"{entry.to.rstrip('/')}/{marker}"


def _step(job: Job, index: int, folders: Mapping[str, Folder], share: Share | None) -> Json:
    entry = job.load_data[index]
    mounts = helper_pods.mounts(job, share, are_writable=True)
    container = helper_pods.container(job, f"load-{index}", _command(job, index, folders), entry.image)
    if entry.folder and isinstance(folders[entry.folder], bytes):
        mounts.append({"name": _volume_name(index), "mountPath": _archive_folder(index), "readOnly": True})
    if entry.command is not None:
        container.update(_variables(job))
    return {**container, "volumeMounts": mounts}


def _command(job: Job, index: int, folders: Mapping[str, Folder]) -> list[str]:
    entry = job.load_data[index]
    if entry.url:
        source = (entry.url, entry.sha256.lower(), web_addresses.file_of(entry.url))
        script = load_scripts.DOWNLOADS[_file_type(entry.url)]
        return helper_pods.script(script, (entry.to, _marker("url", *source), *source))
    if entry.command is not None:
        # Variables in the words are left for Kubernetes to expand.
        words = commands.container_arguments(entry.command, {*job.secrets, *job.variables})
        return [*helper_pods.script(load_scripts.COMMAND, (entry.to, _marker("command", *words))), *words]
    folder = folders[entry.folder]
    if isinstance(folder, LocalFolder):
        marker = _marker("here", folder.path, folder.version)
        return helper_pods.script(load_scripts.LOCAL_FOLDER, (entry.to, marker, folder.path))
    marker, archive = _marker("folder", sha256(folder).hexdigest()), f"{_archive_folder(index)}/{_ARCHIVE}"
    return helper_pods.script(load_scripts.ARCHIVED_FOLDER, (entry.to, marker, archive))


def _file_type(url: str) -> str:
    file = web_addresses.file_of(url).lower()
    return next((name for name, suffixes in _ARCHIVE_SUFFIXES.items() if file.endswith(suffixes)), "file")


def _marker(*source: str) -> str:
    """Return the name of the marker file. It does not depend on the position of the entry in `loadData`."""
    return MARKER_PREFIX + sha256("\0".join(source).encode()).hexdigest()[:16]


def _variables(job: Job) -> Json:
    """Return the variables of the leading role's tasks, because a command may need them, e.g. tokens."""
    task = pods.container(job, helper_pods.leading_role(job))
    return {field: task[field] for field in ("env", "envFrom") if task.get(field)}


def _volume_name(index: int) -> str:
    return f"windlass-folder-{index}"


def _archive_folder(index: int) -> str:
    return f"{_ARCHIVES_FOLDER}/{index}"
