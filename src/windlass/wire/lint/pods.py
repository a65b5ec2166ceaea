"""What has to fit together within one pod template, beyond its shape."""

from collections.abc import Iterator
from itertools import islice

from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

CONTAINER_FIELDS = ("containers", "initContainers", "ephemeralContainers")
_MOST_COMPARED = 200
"""Volumes among which a similar name is looked for: comparing takes time, and no pod has more."""


def check(task: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """`task` is the mapping that should hold the template under `pod`."""
    yield from _check_presence(task, path)
    spec = tree.dig(task, "pod", "spec")
    yield from _check_mounts(spec, f"{path}.pod.spec")


def containers_of(pod_spec: tree.Node | None, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    """Init containers too, each with its path."""
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(tree.items_of(tree.dig(pod_spec, field))):
            if isinstance(container, tree.Mapping):
                yield container, diagnostics.item(f"{path}.{field}", index)


def _check_presence(task: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """The schema asks for `containers` in a spec, but for no spec, and takes an empty list."""
    pod = task.get("pod")
    if pod is None:
        message = 'the field "pod" is missing: a task needs a pod template with containers'
        yield diagnostics.error(task, path, message, Rule.MISSING_FIELD)
        return
    if isinstance(pod, tree.Mapping) and pod.get("spec") is None:
        message = 'the field "spec" is missing: a pod template needs one, with containers'
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
    compared = tuple(islice(known, _MOST_COMPARED))
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
        return f"The pod has no volumes: add one called {diagnostics.quoted(name)} under volumes."
    return diagnostics.did_you_mean(name, known)
