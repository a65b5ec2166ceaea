"""Changes of a running job's objects by others than the controller."""

from collections.abc import Callable

from live.place import Place

Act = Callable[[Place, str], None]
"""A function of the Framework's name."""


def delete_pod(place: Place, framework: str) -> None:
    place.client.delete(place.path("pods", f"{framework}-worker-0")).expect(200)


def delete_pod_at_once(place: Place, framework: str) -> None:
    place.client.delete(place.path("pods", f"{framework}-worker-0"), gracePeriodSeconds="0").expect(200)


def evict_pod(place: Place, framework: str) -> None:
    place.evict(f"{framework}-worker-0")


def delete_config_map(place: Place, framework: str) -> None:
    place.client.delete(place.path("configmaps", f"{framework}-attempt")).expect(200)
