"""A pod, the objects that it refers to and the machine that it runs on, as plain values."""

import base64

import pytest

from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.model.base import Json


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


OBJECTS: dict[tuple[str, str], Json] = {
    ("ConfigMap", "settings"): {
        "data": {"level": "debug", "1st": "no variable", "price": "5$$(level)"},
        "binaryData": {"blob": _base64(b"\xff\x00\x01")},
    },
    ("ConfigMap", "other"): {"data": {"level": "info"}},
    ("Secret", "login"): {
        "data": {"user": _base64(b"ann"), "raw": _base64(b"\xff\xfe"), "nul": _base64(b"a\0b")}
    },
}


def service(namespace: str, name: str, address: str, *ports: Json) -> Json:
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"clusterIP": address, "ports": [*ports]},
    }


@pytest.fixture
def lookup() -> Lookup:
    return lambda kind, name: OBJECTS.get((kind, name))


@pytest.fixture
def facts() -> PodFacts:
    return PodFacts(
        pod_ips=("10.1.0.7", "fd00::7"),
        host_ips=("192.0.2.1",),
        allocatable={"cpu": "7900m", "memory": "16Gi", "ephemeral-storage": "100Gi"},
        services=(
            service("default", "kubernetes", "10.96.0.1", {"name": "https", "protocol": "TCP", "port": 443}),
            service(
                "train",
                "ps-0",
                "10.96.0.9",
                {"port": 2222},
                {"name": "web-ui", "protocol": "UDP", "port": 80},
            ),
            service("train", "headless", "None", {"port": 1}),
            service("elsewhere", "unseen", "10.96.0.10", {"port": 1}),
        ),
    )


@pytest.fixture
def pod() -> Json:
    return {
        "metadata": {
            "name": "digits-worker-0",
            "namespace": "train",
            "uid": "0b1c",
            "labels": {"role": "worker", "app": "digits"},
            "annotations": {"note": 'two\nlines, "quoted"', "example.com/owner": "ann"},
        },
        "spec": {
            "nodeName": "node-1",
            "serviceAccountName": "trainer",
            "enableServiceLinks": True,
            "initContainers": [{"name": "fetch", "resources": {"limits": {"memory": "10Mi"}}}],
            "containers": [
                {
                    "name": "main",
                    "resources": {
                        "limits": {"cpu": "1500m", "memory": "1.5Gi"},
                        "requests": {"cpu": "250m", "memory": "1Gi", "ephemeral-storage": "2G"},
                    },
                }
            ],
        },
    }
