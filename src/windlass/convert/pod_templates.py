"""Put the pod template of another system into a role of a job file."""

import copy
from typing import Any

from windlass.convert.conversion import Draft, Keys
from windlass.model.base import Json

_IGNORED_METADATA = frozenset({"labels", "annotations", "finalizers"})


def put_template(draft: Draft, role: str, template: Json, origin: Keys, container: str = "") -> Json:
    """Set image, command, variables, container name and `pod` of a role, and return its main container.

    `container` is the name of the main container; by default, it is the first one.
    """
    template = copy.deepcopy(template)
    spec = mapping(template.get("spec"))
    containers = mappings(spec.get("containers"))
    index = next((at for at, each in enumerate(containers) if each.get("name") == container), 0)
    main: Json = containers[index] if containers else {}
    at: Keys = (*origin, "spec", "containers", index)
    base: Keys = ("roles", role)
    taken: set[str] = set()
    if main.get("name"):
        draft.put((*base, "container"), main["name"], (*at, "name"))
    if main.get("image"):
        taken.add("image")
        draft.put((*base, "image"), main["image"], (*at, "image"))
    command, args = main.get("command") or [], main.get("args") or []
    if not isinstance(command, list) or not isinstance(args, list):
        pass  # the check of the pod template reports it
    elif command:
        taken |= {"command", "args"}
        words = [str(word) for word in (*command, *args)]
        draft.put((*base, "command"), words, (*at, "command"))
    elif not args:
        comment = "the tasks run the entrypoint of the image"
        draft.put((*base, "idle"), False, at, comment)
    env = _variables(main.get("env"))
    if env:
        taken.add("env")
        draft.put((*base, "env"), env, (*at, "env"))
    rest = {key: value for key, value in main.items() if key not in taken}
    others = [each for number, each in enumerate(containers) if number != index]
    pod_spec = {key: value for key, value in spec.items() if key != "containers"}
    pod_containers = [rest] if set(rest) - {"name"} else []
    if [*pod_containers, *others]:
        pod_spec = {"containers": [*pod_containers, *others], **pod_spec}
    metadata = {
        key: value
        for key, value in mapping(template.get("metadata")).items()
        if key in _IGNORED_METADATA and value
    }
    pod: Json = {}
    if metadata:
        pod["metadata"] = metadata
    if pod_spec:
        pod["spec"] = pod_spec
    if pod:
        draft.put((*base, "pod"), pod, origin)
    for number, each in enumerate(pod_containers + others if pod_spec else ()):
        source = index if each is rest else containers.index(each)
        draft.map_origin(
            (*base, "pod", "spec", "containers", number), (*origin, "spec", "containers", source)
        )
    return main


def mapping(value: Any) -> Json:
    """Return a mapping; an empty one for anything else, which the check of the pod template reports."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Json]:
    """Return the mappings of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def add_volume(draft: Draft, role: str, volume: Json, mount_path: str) -> None:
    """Add a volume to the pods of a role, and mount it in the main container."""
    pod = ("roles", role, "pod", "spec")
    mount = {"name": volume["name"], "mountPath": mount_path}
    main: Json = {"name": draft.document["roles"][role].get("container", "main"), "volumeMounts": [mount]}
    draft.merge(pod, {"containers": [main], "volumes": [volume]})


def port_of(main: Json, name: str, default: int) -> int:
    """Return the port of a container with this name."""
    for port in mappings(main.get("ports")):
        if port.get("name") == name and isinstance(port.get("containerPort"), int):
            return int(port["containerPort"])
    return default


def _variables(env: Any) -> Json | None:
    """Return the variables as a mapping; None if there are none, or if a name occurs twice."""
    if not isinstance(env, list) or not env:
        return None
    found: Json = {}
    for each in env:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str) or each["name"] in found:
            return None
        found[each["name"]] = each["valueFrom"] if each.get("valueFrom") else str(each.get("value") or "")
    return found
