"""Accessors for the fields of a validated pod."""

from windlass.model.base import Json

FINAL_PHASES = ("Succeeded", "Failed")


def containers(pod: Json) -> list[Json]:
    found: list[Json] = pod["spec"]["containers"]
    return found


def init_containers(pod: Json) -> list[Json]:
    return pod["spec"].get("initContainers") or []


def container(pod: Json, name: str) -> Json:
    return next(each for each in (*init_containers(pod), *containers(pod)) if each["name"] == name)


def is_init_container(pod: Json, name: str) -> bool:
    return any(name == each["name"] for each in init_containers(pod))


def sidecar_names(pod: Json) -> frozenset[str]:
    """Return the names of restartable init containers, which run as long as the pod."""
    return frozenset(each["name"] for each in init_containers(pod) if each.get("restartPolicy") == "Always")


def restart_policy(pod: Json) -> str:
    policy: str = pod["spec"].get("restartPolicy", "Always")
    return policy


def grace_seconds(pod: Json) -> int:
    seconds: int = pod["spec"].get("terminationGracePeriodSeconds", 30)
    return seconds


def status(pod: Json) -> Json:
    return pod.get("status") or {}


def phase(pod: Json) -> str:
    found: str = status(pod).get("phase", "")
    return found


def has_final_phase(pod: Json) -> bool:
    return phase(pod) in FINAL_PHASES


def full_name(pod: Json) -> str:
    """Return the name of a pod in messages of the kubelet."""
    meta = pod["metadata"]
    return f"{meta['name']}_{meta['namespace']}({meta['uid']})"
