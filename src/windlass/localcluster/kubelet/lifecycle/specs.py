"""What the life of a pod depends on in its object, read out of the JSON that the API server has checked."""

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
    """The init containers that are to run for as long as the pod does."""
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
    """The pod as the kubelet's messages name it."""
    meta = pod["metadata"]
    return f"{meta['name']}_{meta['namespace']}({meta['uid']})"
