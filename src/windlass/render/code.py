"""How the code of a job reaches its tasks: in place, or in a ConfigMap."""

import msgspec

from windlass.model.base import Json

FOLDER = "/windlass/code"
"""Folder with the unpacked code, in which tasks start."""
ARCHIVE = "code.tar.gz"
"""Key in the binaryData of the ConfigMap."""
VOLUME = "windlass-code"
_ARCHIVE_VOLUME = "windlass-archive"
_ARCHIVE_FOLDER = "/windlass/archive"
_CONTAINER = "windlass-code"
_UNPACK = (
    f"if command -v tar >/dev/null; then tar -xzf {_ARCHIVE_FOLDER}/{ARCHIVE} -C {FOLDER}; "
    f"else python3 -m tarfile -e {_ARCHIVE_FOLDER}/{ARCHIVE} {FOLDER}; fi"
)


class InPlace(msgspec.Struct, frozen=True):
    """Tasks run on this machine and start in this folder."""

    path: str
    """Absolute path."""


class Packed(msgspec.Struct, frozen=True):
    """An init container unpacks the code from this ConfigMap."""

    config_map: str


Code = InPlace | Packed


def config_map_name(job: str) -> str:
    return f"{job}-code"


def with_code(spec: Json, code: Code | None) -> Json:
    """Make the first container of a pod spec, which is the task's container, start in the folder of the code."""
    match code:
        case None:
            return spec
        case InPlace(path=path):
            return _with_main(spec, {"workingDir": path})
        case Packed(config_map=config_map):
            return _with_archive(spec, config_map)


def _with_archive(spec: Json, config_map: str) -> Json:
    main = spec["containers"][0]
    mount = {"name": VOLUME, "mountPath": FOLDER}
    init_container: Json = {
        "name": _CONTAINER,
        "image": main["image"],
        "command": ["/bin/sh", "-c", _UNPACK],
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
            {"name": _ARCHIVE_VOLUME, "configMap": {"name": config_map}},
            *spec["volumes"],
        ],
    }


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
