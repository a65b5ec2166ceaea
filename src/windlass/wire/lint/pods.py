"""Lint a pod template beyond its structure: containers, volumes and mounts."""

from collections.abc import Iterator
from itertools import islice

from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

CONTAINER_FIELDS = ("containers", "initContainers", "ephemeralContainers")
_MAX_COMPARED = 200
"""The maximum number of volumes to search for a similar name."""


def check(task: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Check the template in the field `pod` of a task."""
    yield from _check_presence(task, path)
    spec = tree.dig(task, "pod", "spec")
    yield from _check_mounts(spec, f"{path}.pod.spec")


def containers_of(pod_spec: tree.Node | None, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    """Yield all containers with their paths, including init containers."""
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(tree.items_of(tree.dig(pod_spec, field))):
            if isinstance(container, tree.Mapping):
                yield container, diagnostics.item(f"{path}.{field}", index)


def _check_presence(task: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Require what the schema does not: a spec, and at least one container."""
    pod = task.get("pod")
    if pod is None:
        message = 'missing required field "pod" with a pod template'
        yield diagnostics.error(task, path, message, Rule.MISSING_FIELD)
        return
    if isinstance(pod, tree.Mapping) and pod.get("spec") is None:
        message = 'missing required field "spec" with containers'
        yield diagnostics.error(pod, f"{path}.pod", message, Rule.MISSING_FIELD)
        return
    containers = tree.dig(pod, "spec", "containers")
    if isinstance(containers, tree.Sequence) and not containers.items:
        yield diagnostics.error(
            containers, f"{path}.pod.spec.containers", "found an empty list, expected at least one container"
        )


def _check_mounts(pod_spec: tree.Node | None, path: str) -> Iterator[Diagnostic]:
    volumes = [
        tree.text_of(tree.dig(volume, "name")) for volume in tree.items_of(tree.dig(pod_spec, "volumes"))
    ]
    known = dict.fromkeys(name for name in volumes if name is not None)
    compared = tuple(islice(known, _MAX_COMPARED))
    for container, container_path in containers_of(pod_spec, path):
        for index, mount in enumerate(tree.items_of(container.get("volumeMounts"))):
            name = tree.dig(mount, "name")
            text = tree.text_of(name)
            if name is None or text is None or text in known:
                continue
            yield diagnostics.error(
                name,
                f"{diagnostics.item(f'{container_path}.volumeMounts', index)}.name",
                f"found {diagnostics.quoted(text)}, expected the name of a volume of this pod. "
                f"{_remedy(text, compared)}",
                Rule.UNKNOWN_VOLUME,
            )


def _remedy(name: str, known: tuple[str, ...]) -> str:
    if not known:
        return f"The pod has no volumes: add a volume {diagnostics.quoted(name)}."
    return diagnostics.did_you_mean(name, known)
