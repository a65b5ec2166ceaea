"""The two ways in which tasks get the code of a job: in place, or from ConfigMaps."""

from collections.abc import Iterator

import msgspec

from windlass.model.base import Json

FOLDER = "/windlass/code"
"""Folder with the unpacked code, in which tasks start."""
ARCHIVE = "code.tar.gz"
"""Key in the binaryData of the ConfigMap. Several ConfigMaps have a number behind it, e.g. `code.tar.gz.00`."""
PART_BYTES = 900 * 1024
"""Maximum size of the archive in one ConfigMap, which holds 1 MiB."""
VOLUME = "windlass-code"
_ARCHIVE_VOLUME = "windlass-archive"
_ARCHIVE_FOLDER = "/windlass/archive"
_CONTAINER = "windlass-code"
_UNPACK = (
    f"if command -v tar >/dev/null; then tar -xzf {_ARCHIVE_FOLDER}/{ARCHIVE} -C {FOLDER}; "
    f"else python3 -m tarfile -e {_ARCHIVE_FOLDER}/{ARCHIVE} {FOLDER}; fi"
)
_JOINED = f"{FOLDER}/.windlass-code"
_JOIN_AND_UNPACK = (
    f"if command -v tar >/dev/null; then cat {_ARCHIVE_FOLDER}/{ARCHIVE}.* | tar -xzf - -C {FOLDER}; "
    f"else cat {_ARCHIVE_FOLDER}/{ARCHIVE}.* >{_JOINED} && python3 -m tarfile -e {_JOINED} {FOLDER} && "
    f"rm {_JOINED}; fi"
)


class InPlace(msgspec.Struct, frozen=True):
    """Tasks run on this machine and start in this folder."""

    path: str
    """Absolute path."""
    other_images: frozenset[str] = frozenset()
    """Images with their own files: tasks with these do not start in the folder."""


class Packed(msgspec.Struct, frozen=True):
    """An init container unpacks the code from ConfigMaps."""

    config_map: str
    """Name of the first ConfigMap."""
    parts: int = 1
    """Number of ConfigMaps."""

    @property
    def config_maps(self) -> tuple[str, ...]:
        return (self.config_map, *(f"{self.config_map}-{number}" for number in range(1, self.parts)))


Code = InPlace | Packed


def config_map_name(job: str) -> str:
    return f"{job}-code"


def packed(job: str, archive: bytes) -> Packed:
    """Return how the tasks of a job get this archive."""
    return Packed(config_map_name(job), max(1, -(-len(archive) // PART_BYTES)))


def parts_of(job: str, archive: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Yield the ConfigMaps of an archive: name, key and data."""
    config_maps = packed(job, archive).config_maps
    for number, name in enumerate(config_maps):
        key = ARCHIVE if len(config_maps) == 1 else f"{ARCHIVE}.{number:02}"
        yield name, key, archive[number * PART_BYTES : (number + 1) * PART_BYTES]


def with_code(spec: Json, code: Code | None) -> Json:
    """Make the first container of a pod spec, which is the task's container, start in the folder of the code."""
    match code:
        case None:
            return spec
        case InPlace():
            has_own_files = spec["containers"][0].get("image") in code.other_images
            return spec if has_own_files else _with_main(spec, {"workingDir": code.path})
        case Packed():
            return _with_archive(spec, code)


def _with_archive(spec: Json, code: Packed) -> Json:
    main = spec["containers"][0]
    mount = {"name": VOLUME, "mountPath": FOLDER}
    init_container: Json = {
        "name": _CONTAINER,
        "image": main["image"],
        "command": ["/bin/sh", "-c", _UNPACK if code.parts == 1 else _JOIN_AND_UNPACK],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount, {"name": _ARCHIVE_VOLUME, "mountPath": _ARCHIVE_FOLDER, "readOnly": True}],
    }
    if resources := _cpu_and_memory(main.get("resources") or {}):
        init_container["resources"] = resources
    return {
        **_with_main(spec, {"workingDir": FOLDER, "volumeMounts": [mount, *main["volumeMounts"]]}),
        "initContainers": [init_container],
        "volumes": [
            {"name": VOLUME, "emptyDir": {}},
            {"name": _ARCHIVE_VOLUME, **_source(code)},
            *spec["volumes"],
        ],
    }


def _source(code: Packed) -> Json:
    """Return the source of the volume with the archive."""
    if code.parts == 1:
        return {"configMap": {"name": code.config_map}}
    return {"projected": {"sources": [{"configMap": {"name": name}} for name in code.config_maps]}}


def _with_main(spec: Json, fields: Json) -> Json:
    """Set fields of the first container."""
    main, *others = spec["containers"]
    return {**spec, "containers": [{**main, **fields}, *others]}


def _cpu_and_memory(resources: Json) -> Json:
    """Return the CPU and memory of a task's resources.

    The init container requests the same as the task, so that the QoS class of the pod does not change.
    """
    found = {
        field: {name: quantity for name, quantity in quantities.items() if name in ("cpu", "memory")}
        for field, quantities in resources.items()
    }
    return {field: quantities for field, quantities in found.items() if quantities}
