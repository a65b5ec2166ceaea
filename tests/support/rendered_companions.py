"""The rendered objects of one companion by kind, and its pod spec."""

from collections.abc import Sequence

from windlass.model.base import Json

Rendered = dict[str, Json]


def by_kind(bodies: Sequence[Json]) -> Rendered:
    found = {str(body["kind"]): body for body in bodies}
    assert len(found) == len(bodies)
    return found


def pod_of(found: Rendered) -> Json:
    """Return the pod spec."""
    spec: Json = found["Deployment"]["spec"]["template"]["spec"]
    return spec


def container_of(found: Rendered) -> Json:
    (container,) = pod_of(found)["containers"]
    assert isinstance(container, dict)
    return container
