"""The Node objects of this machine: one, or several logical nodes that share it.

CPU, memory and disk are divided evenly, but each node gets at least the CPU and memory of a small pod if the machine
has them: a pod that requests one CPU must fit on a laptop with three logical nodes. CPU and memory may then be
overcommitted. GPUs are never overcommitted: each belongs to one node, the first nodes get one more if GPUs cannot be
divided evenly, and a node without GPUs does not list the resource.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from windlass.k8s import quantities
from windlass.localcluster.scheduler import gpus
from windlass.localcluster.scheduler.gpus import Gpu
from windlass.model.base import Json

INDEX_LABEL = "windlass.dev/node-index"
"""On a node of the embedded cluster: its number."""
_MIN_MILLICORES = 1000
_MIN_MEMORY = 512 * 1024**2
# The default of the kubelet.
MAX_PODS = 110
_HEALTHY_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of the machine. Architecture and operating system have Kubernetes' names: amd64, linux."""

    host_name: str
    cpu: int
    memory_bytes: int
    storage_bytes: int = 0
    gpus: tuple[Gpu, ...] = ()
    architecture: str
    operating_system: str = "linux"
    os_image: str = ""
    kernel_version: str = ""
    machine_id: str = ""
    boot_id: str = ""
    address: str = "127.0.0.1"
    # The Kubernetes version that the nodes report.
    version: str = ""
    runtime_version: str = ""
    max_pods: int = MAX_PODS


def nodes(machine: Machine, count: int, now: str) -> list[Json]:
    """Return `count` nodes of one machine, ready as of `now`."""
    names = [name_of_only_node(machine.host_name)] if count == 1 else [f"windlass-{i}" for i in range(count)]
    resources = dict.fromkeys(gpu.resource for gpu in machine.gpus)
    shares = [
        _split_evenly([gpu for gpu in machine.gpus if gpu.resource == each], count) for each in resources
    ]
    own = [[gpu for share in shares for gpu in share[index]] for index in range(count)]
    return [_node(machine, index, names[index], own[index], count, now) for index in range(count)]


def name_of_only_node(host_name: str) -> str:
    """Return the host name, converted to a valid node name."""
    allowed = re.sub(r"[^a-z0-9.-]+", "-", host_name.lower())
    labels = [label.strip("-") for label in allowed.split(".")]
    return ".".join(filter(None, labels))[:253].strip(".-") or "windlass-0"


def _node(machine: Machine, index: int, name: str, own_gpus: Sequence[Gpu], count: int, now: str) -> Json:
    capacity = _capacity(machine, own_gpus, count)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": _labels(machine, index, name),
            **({"annotations": {gpus.ANNOTATION: gpus.format_gpus(own_gpus)}} if own_gpus else {}),
        },
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [_condition(*words, now) for words in _HEALTHY_CONDITIONS],
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": _info(machine),
        },
    }


def _labels(machine: Machine, index: int, name: str) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": name[:63].rstrip(".-"),
        "kubernetes.io/os": machine.operating_system,
        "kubernetes.io/arch": machine.architecture,
        # Deprecated labels that old manifests select by and kubelets still set.
        "beta.kubernetes.io/os": machine.operating_system,
        "beta.kubernetes.io/arch": machine.architecture,
        INDEX_LABEL: str(index),
    }


def _capacity(machine: Machine, own_gpus: Sequence[Gpu], count: int) -> dict[str, str]:
    cpu = _share(machine.cpu * 1000, count, _MIN_MILLICORES)
    memory = _share(machine.memory_bytes, count, _MIN_MEMORY)
    amounts = {
        "cpu": quantities.canonical(f"{cpu}m"),
        "memory": f"{memory // 1024}Ki",
        "pods": str(machine.max_pods),
    }
    if machine.storage_bytes:
        amounts["ephemeral-storage"] = f"{machine.storage_bytes // count // 1024}Ki"
    gpu_counts = Counter(gpu.resource for gpu in own_gpus)
    return amounts | {resource: str(number) for resource, number in gpu_counts.items()}


def _share(whole: int, count: int, least: int) -> int:
    return max(whole // count, min(whole, least))


def _split_evenly(items: Sequence[Gpu], count: int) -> list[Sequence[Gpu]]:
    """Split a sequence into `count` parts, in order and as evenly as possible."""
    each, more = divmod(len(items), count)
    starts = [index * each + min(index, more) for index in range(count + 1)]
    return [items[start:end] for start, end in itertools.pairwise(starts)]


def _condition(type_: str, status: str, reason: str, message: str, now: str) -> Json:
    return {
        "type": type_,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _info(machine: Machine) -> dict[str, str]:
    return {
        "architecture": machine.architecture,
        "bootID": machine.boot_id,
        "containerRuntimeVersion": machine.runtime_version,
        "kernelVersion": machine.kernel_version,
        "kubeProxyVersion": machine.version,
        "kubeletVersion": machine.version,
        "machineID": machine.machine_id,
        "operatingSystem": machine.operating_system,
        "osImage": machine.os_image,
        "systemUUID": machine.machine_id,
    }
