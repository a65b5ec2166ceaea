"""Measure what the annotations, labels and variables of a Framework's pod cost the API server, and what removal costs.

    PYTHONPATH=tools:tests/support python bench/pod_parts.py

Variants of a pod without some of its parts are created on a real API server, and their status is written, as a kubelet
does. The CPU time is that of kube-apiserver, the median of several rounds in which the variants take turns.
"""

import asyncio
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import builders
import msgspec

import kubernetes_api
from cluster_load import processes, workloads
from windlass.decide import decide
from windlass.decide.types import Observed
from windlass.k8s.protobuf import encoding
from windlass.kubeapi import access, requests
from windlass.kubeapi.resources import CONFIG_MAPS, NAMESPACES, PODS
from windlass.kubeapi.transport import Transport
from windlass.model.base import Json
from windlass.objects.pod import PodFactory
from windlass.wire import codec

ROUNDS: Final = 7
PODS_PER_ROUND: Final = 50
IDENTITY: Final = "FC_"
RUNNING: Final = {
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "hostIP": "10.0.0.2",
        "startTime": "2026-11-19T10:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}],
    }
}


def pod() -> Json:
    """Return the pod of a Framework with one small container."""
    framework = codec.decode_framework(workloads.framework("job", 2, pods=workloads.Pods.KEPT))
    metadata = msgspec.structs.replace(
        framework.metadata,
        uid="b0a5a1a8-5a0f-4c55-9f07-a86a5f6f1b11",
        resource_version="1",
        namespace=workloads.NAMESPACE,
    )
    framework = msgspec.structs.replace(framework, metadata=metadata)
    status = decide(framework, Observed(), builders.at(0)).status
    assert status is not None
    attempt = builders.config_map(framework.with_status(status, "1"))
    observed = Observed(config_map=attempt, known={attempt.uid})
    status = decide(framework.with_status(status, "1"), observed, builders.at(1)).status
    assert status is not None
    return PodFactory(framework.with_status(status, "1")).pod("worker", 0)


def without_annotations(whole: Json) -> Json:
    kept = {
        key: value for key, value in whole["metadata"]["annotations"].items() if not key.startswith(IDENTITY)
    }
    return {**whole, "metadata": {**whole["metadata"], "annotations": kept}}


def without_variables(whole: Json) -> Json:
    containers = [{**each, "env": []} for each in whole["spec"]["containers"]]
    return {**whole, "spec": {**whole["spec"], "containers": containers}}


def without_labels(whole: Json) -> Json:
    return {**whole, "metadata": {**whole["metadata"], "labels": {}}}


VARIANTS: Final[dict[str, Callable[[Json], Json]]] = {
    "whole pod": lambda whole: whole,
    "without the 13 annotations": without_annotations,
    "without the 15 variables": without_variables,
    "without the labels": without_labels,
    "without all of them": lambda whole: without_labels(without_variables(without_annotations(whole))),
}


def api_server() -> processes.Measured:
    """Return the kube-apiserver that this process has started."""
    for entry in Path("/proc").glob("[0-9]*"):
        stat = (entry / "stat").read_text()
        name, _, rest = stat.partition("(")[2].rpartition(")")
        if name == "kube-apiserver" and int(rest.split()[1]) == os.getpid():
            return processes.Measured(int(entry.name))
    raise LookupError("kube-apiserver is not a child of this process")


async def measure(transport: Transport, server: processes.Measured) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {
        name: {"create": [], "status": [], "stored": []} for name in VARIANTS
    }
    whole = pod()
    await transport.send(requests.list_page(PODS, workloads.NAMESPACE).with_protobuf())
    for number in range(ROUNDS):
        for name, change in VARIANTS.items():
            created = [
                named(change(whole), f"{name.replace(' ', '-')}-{number}-{index}")
                for index in range(PODS_PER_ROUND)
            ]
            before = server.cpu_seconds()
            for each in created:
                request = requests.create_object(PODS, workloads.NAMESPACE, each)
                await transport.send(request.with_accept(requests.METADATA_ONLY))
            between = server.cpu_seconds()
            for each in created:
                request = requests.merge_patch(
                    PODS,
                    workloads.NAMESPACE,
                    each["metadata"]["name"],
                    msgspec.json.encode(RUNNING),
                    "status",
                )
                await transport.send(request.with_accept(requests.METADATA_ONLY))
            after = server.cpu_seconds()
            found[name]["create"].append((between - before) * 1000 / PODS_PER_ROUND)
            found[name]["status"].append((after - between) * 1000 / PODS_PER_ROUND)
            stored = await transport.send(
                requests.get(PODS, workloads.NAMESPACE, created[0]["metadata"]["name"])
            )
            found[name]["stored"].append(len(stored))
    return found


async def measure_removal(transport: Transport, server: processes.Measured) -> dict[str, list[float]]:
    """Delete ended pods, and ConfigMaps with and without the finalizer that those of attempts have."""
    found: dict[str, list[float]] = {}
    ended = msgspec.json.encode({"status": {"phase": "Succeeded"}})
    for number in range(ROUNDS):
        for what, resource, finalizers in (
            ("pod that has ended", PODS, []),
            ("ConfigMap of an attempt", CONFIG_MAPS, ["foregroundDeletion"]),
            ("ConfigMap without a finalizer", CONFIG_MAPS, []),
        ):
            removed = [f"removed-{number}-{index}" for index in range(PODS_PER_ROUND)]
            for name in removed:
                manifest: Json = named(pod(), name)
                if resource is CONFIG_MAPS:
                    metadata = {"name": name, "finalizers": finalizers}
                    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
                await transport.send(requests.create_object(resource, workloads.NAMESPACE, manifest))
                if resource is PODS:
                    await transport.send(
                        requests.merge_patch(PODS, workloads.NAMESPACE, name, ended, "status")
                    )
            before = server.cpu_seconds()
            for name in removed:
                request = requests.delete(resource, workloads.NAMESPACE, name, propagation="Background")
                await transport.send(request.with_accept(requests.METADATA_ONLY))
            found.setdefault(what, []).append((server.cpu_seconds() - before) * 1000 / PODS_PER_ROUND)
    return found


def named(manifest: Json, name: str) -> Json:
    metadata: dict[str, Any] = {**manifest["metadata"], "name": name}
    metadata.pop("ownerReferences")
    return {**manifest, "metadata": metadata}


async def run(api: kubernetes_api.Api) -> None:
    async with Transport(await access.load(str(api.kubeconfig))) as transport:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workloads.NAMESPACE}}
        await transport.send(requests.create(NAMESPACES, "", msgspec.json.encode(body)))
        found = await measure(transport, api_server())
        removal = await measure_removal(transport, api_server())
    print("| pod | sent, bytes | stored as JSON, bytes | create, CPU ms | write the status, CPU ms |")
    print("|---|---|---|---|---|")
    for name, change in VARIANTS.items():
        sent = encoding.encode(change(pod())) or b""
        stored, create, status = (
            statistics.median(found[name][what]) for what in ("stored", "create", "status")
        )
        print(f"| {name} | {len(sent)} | {stored:.0f} | {create:.2f} | {status:.2f} |")
    print("\n| deletion of a | CPU ms |\n|---|---|")
    for what, values in removal.items():
        print(f"| {what} | {statistics.median(values):.2f} |")


def main() -> None:
    with kubernetes_api.serve() as api:
        asyncio.run(run(api))


if __name__ == "__main__":
    main()
