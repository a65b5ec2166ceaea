"""The environment of a container, and the kubelet's messages for invalid references."""

from collections.abc import Iterator
from typing import Any

import pytest

from windlass.localcluster.kubelet.containers.environment import environment
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.model.base import Json

CONFIG_ERROR = "CreateContainerConfigError"


def _from(kind: str, **reference: Any) -> Json:
    return {"name": "X", "valueFrom": {kind: reference}}


def _of_field(path: str) -> Json:
    return _from("fieldRef", apiVersion="v1", fieldPath=path)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ({"name": "X"}, ""),
        ({"name": "X", "value": "plain"}, "plain"),
        (_of_field("metadata.name"), "digits-worker-0"),
        (_of_field("metadata.namespace"), "train"),
        (_of_field("metadata.uid"), "0b1c"),
        (_of_field("metadata.labels['role']"), "worker"),
        (_of_field("metadata.labels['absent']"), ""),
        (_of_field("metadata.annotations['example.com/owner']"), "ann"),
        (_of_field("metadata.annotations['note']"), 'two\nlines, "quoted"'),
        (_of_field("spec.nodeName"), "node-1"),
        (_of_field("spec.serviceAccountName"), "trainer"),
        (_of_field("status.podIP"), "10.1.0.7"),
        (_of_field("status.podIPs"), "10.1.0.7,fd00::7"),
        (_of_field("status.hostIP"), "192.0.2.1"),
        (_of_field("status.hostIPs"), "192.0.2.1"),
        (_from("resourceFieldRef", resource="limits.cpu"), "2"),
        (_from("resourceFieldRef", resource="limits.cpu", divisor="1m"), "1500"),
        (_from("resourceFieldRef", resource="limits.cpu", divisor="0"), "2"),
        (_from("resourceFieldRef", resource="requests.cpu"), "1"),
        (_from("resourceFieldRef", resource="requests.cpu", divisor="1m"), "250"),
        (_from("resourceFieldRef", resource="limits.memory"), "1610612736"),
        (_from("resourceFieldRef", resource="limits.memory", divisor="1Mi"), "1536"),
        (_from("resourceFieldRef", resource="limits.memory", divisor="1Gi"), "2"),
        (_from("resourceFieldRef", resource="limits.memory", divisor="1M"), "1611"),
        (_from("resourceFieldRef", resource="requests.ephemeral-storage"), "2000000000"),
        # What has no limit may have all that the node can give.
        (_from("resourceFieldRef", resource="limits.ephemeral-storage", divisor="1Gi"), "100"),
        (_from("resourceFieldRef", containerName="fetch", resource="limits.memory", divisor="1Mi"), "10"),
        (_from("resourceFieldRef", containerName="fetch", resource="limits.cpu", divisor="1m"), "7900"),
        (_from("resourceFieldRef", containerName="fetch", resource="requests.cpu"), "0"),
        (_from("configMapKeyRef", name="settings", key="level"), "debug"),
        # What comes from elsewhere is not expanded.
        (_from("configMapKeyRef", name="settings", key="price"), "5$$(level)"),
        (_from("secretKeyRef", name="login", key="user"), "ann"),
        (_from("secretKeyRef", name="login", key="raw"), "\udcff\udcfe"),
        (_from("configMapKeyRef", name="settings", key="absent", optional=True), None),
        (_from("configMapKeyRef", name="absent", key="level", optional=True), None),
        (_from("secretKeyRef", name="absent", key="user", optional=True), None),
    ],
)
def test_values_of_env(variable: Json, value: str | None, pod: Json, lookup: Lookup, facts: PodFacts) -> None:
    container = {**pod["spec"]["containers"][0], "env": [variable]}
    assert environment(pod, container, lookup, facts).get("X") == value


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (
            {"env": [_from("configMapKeyRef", name="settings", key="absent")]},
            "couldn't find key absent in ConfigMap train/settings",
        ),
        (
            {"env": [_from("secretKeyRef", name="login", key="absent")]},
            "couldn't find key absent in Secret train/login",
        ),
        # Binary data never reaches the environment.
        (
            {"env": [_from("configMapKeyRef", name="settings", key="blob")]},
            "couldn't find key blob in ConfigMap train/settings",
        ),
        ({"env": [_from("configMapKeyRef", name="absent", key="k")]}, 'configmap "absent" not found'),
        ({"env": [_from("secretKeyRef", name="absent", key="k")]}, 'secret "absent" not found'),
        ({"envFrom": [{"configMapRef": {"name": "absent"}}]}, 'configmap "absent" not found'),
        ({"envFrom": [{"secretRef": {"name": "absent"}}]}, 'secret "absent" not found'),
        (
            {"env": [_from("resourceFieldRef", containerName="absent", resource="limits.cpu")]},
            "container absent not found",
        ),
        (
            {"env": [_from("resourceFieldRef", resource="limits.pods")]},
            "unsupported container resource : limits.pods",
        ),
        ({"env": [_of_field("status.phase")]}, "unsupported fieldPath: status.phase"),
        (
            {"env": [_from("fileKeyRef", path="f", volumeName="v", key="k")]},
            'variable "X": valueFrom.fileKeyRef is not supported on this cluster',
        ),
    ],
)
def test_invalid_reference_is_rejected(
    container: Json, message: str, pod: Json, lookup: Lookup, facts: PodFacts
) -> None:
    with pytest.raises(SetupError) as refused:
        environment(pod, {"name": "main", **container}, lookup, facts)
    assert (refused.value.reason, refused.value.message) == (CONFIG_ERROR, message)


def test_nul_byte_is_rejected(pod: Json, lookup: Lookup, facts: PodFacts) -> None:
    with pytest.raises(SetupError, match='environment variable "X" contains a NUL byte') as refused:
        environment(
            pod, {"name": "main", "env": [_from("secretKeyRef", name="login", key="nul")]}, lookup, facts
        )
    assert refused.value.reason == "CreateContainerError"


def _without_services(pod: Json, container: Json, lookup: Lookup, facts: PodFacts) -> dict[str, str]:
    return environment(
        pod, {"name": "main", **container}, lookup, PodFacts(facts.pod_ips, facts.host_ips, {})
    )


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"envFrom": [{"configMapRef": {"name": "other"}}]}, {"level": "info"}),
        ({"envFrom": [{"prefix": "APP_", "configMapRef": {"name": "other"}}]}, {"APP_level": "info"}),
        # Any key may be a variable, though a shell cannot read this one.
        (
            {"envFrom": [{"configMapRef": {"name": "settings"}}]},
            {"level": "debug", "1st": "no variable", "price": "5$$(level)"},
        ),
        (
            {"envFrom": [{"prefix": "N_", "configMapRef": {"name": "settings"}}]},
            {"N_level": "debug", "N_1st": "no variable", "N_price": "5$$(level)"},
        ),
        # The later source wins, and the container's own variables win over all of them.
        (
            {"envFrom": [{"configMapRef": {"name": "settings"}}, {"configMapRef": {"name": "other"}}]},
            {"level": "info", "1st": "no variable", "price": "5$$(level)"},
        ),
        (
            {
                "envFrom": [{"configMapRef": {"name": "other"}}],
                "env": [{"name": "level", "value": "own, not $(level)"}],
            },
            {"level": "own, not info"},
        ),
        ({"envFrom": [{"configMapRef": {"name": "absent", "optional": True}}]}, {}),
        ({"envFrom": [{"secretRef": {"name": "absent", "optional": True}}]}, {}),
        # Only what comes before a variable can be referred to.
        (
            {
                "env": [
                    {"name": "EARLY", "value": "$(LATE)"},
                    {"name": "LATE", "value": "$(EARLY)!"},
                    {"name": "ESCAPED", "value": "$$(EARLY)"},
                ]
            },
            {"EARLY": "$(LATE)", "LATE": "$(LATE)!", "ESCAPED": "$(EARLY)"},
        ),
        (
            {"env": [_of_field("metadata.name"), {"name": "Y", "value": "$(X).$(X)"}]},
            {"X": "digits-worker-0", "Y": "digits-worker-0.digits-worker-0"},
        ),
        # An optional key that is not there leaves an earlier value alone.
        (
            {
                "envFrom": [{"configMapRef": {"name": "other"}}],
                "env": [
                    {
                        "name": "level",
                        "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y", "optional": True}},
                    }
                ],
            },
            {"level": "info"},
        ),
    ],
)
def test_env_overrides_env_from(
    container: Json, expected: dict[str, str], pod: Json, lookup: Lookup, facts: PodFacts
) -> None:
    assert _without_services(pod, container, lookup, facts) == expected


KUBERNETES = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
    "KUBERNETES_PORT_443_TCP_PORT": "443",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
}
PS = {
    "PS_0_SERVICE_HOST": "10.96.0.9",
    "PS_0_SERVICE_PORT": "2222",
    "PS_0_SERVICE_PORT_WEB_UI": "80",
    "PS_0_PORT": "tcp://10.96.0.9:2222",
    "PS_0_PORT_2222_TCP": "tcp://10.96.0.9:2222",
    "PS_0_PORT_2222_TCP_PROTO": "tcp",
    "PS_0_PORT_2222_TCP_PORT": "2222",
    "PS_0_PORT_2222_TCP_ADDR": "10.96.0.9",
    "PS_0_PORT_80_UDP": "udp://10.96.0.9:80",
    "PS_0_PORT_80_UDP_PROTO": "udp",
    "PS_0_PORT_80_UDP_PORT": "80",
    "PS_0_PORT_80_UDP_ADDR": "10.96.0.9",
}


@pytest.mark.parametrize(("links", "expected"), [(True, KUBERNETES | PS), (False, KUBERNETES)])
def test_service_variables(
    links: bool, expected: dict[str, str], pod: Json, lookup: Lookup, facts: PodFacts
) -> None:
    pod["spec"]["enableServiceLinks"] = links
    assert environment(pod, {"name": "main"}, lookup, facts) == expected


def test_service_variables_can_be_referenced_and_overridden(
    pod: Json, lookup: Lookup, facts: PodFacts
) -> None:
    variables = [
        {"name": "ADDRESS", "value": "$(PS_0_SERVICE_HOST):$(PS_0_SERVICE_PORT)"},
        {"name": "PS_0_SERVICE_HOST", "value": "mine"},
    ]
    found = environment(pod, {"name": "main", "env": variables}, lookup, facts)
    assert found["ADDRESS"] == "10.96.0.9:2222"
    assert found["PS_0_SERVICE_HOST"] == "mine"


POD: Json = {"metadata": {"name": "p", "namespace": "train", "uid": "u"}, "spec": {}}


def test_object_is_read_once_for_all_variables() -> None:
    read: list[str] = []

    def lookup(_: str, name: str) -> Json:
        read.append(name)
        return {"data": {"key": "dmFsdWU="}}

    variables = [
        _from("secretKeyRef", name="large", key="key") | {"name": f"V{number}"} for number in range(100)
    ]
    found = environment(POD, {"name": "c", "env": variables}, lookup, PodFacts((), (), {}, ()))
    assert set(found.values()) == {"value"}
    assert read == ["large"]


def test_environment_that_is_too_long_for_a_process_is_rejected() -> None:
    doubled = [{"name": f"V{number}", "value": f"$(V{number - 1})" * 2} for number in range(1, 64)]
    container = {"name": "c", "env": [{"name": "V0", "value": "x" * 1_000}, *doubled]}
    with pytest.raises(SetupError, match="use fewer or shorter arguments"):
        environment(POD, container, lambda *_: None, PodFacts((), (), {}, ()))


def test_service_variables_that_are_too_long_for_a_process_are_not_all_computed() -> None:
    computed = 0

    def ports() -> Iterator[Json]:
        nonlocal computed
        for number in range(1, 1_000_000):
            computed += 1
            yield {"name": f"port-{number}", "port": number, "protocol": "TCP"}

    class Ports(list[Json]):
        def __iter__(self) -> Iterator[Json]:
            return ports()

    service = {
        "metadata": {"name": "large", "namespace": "train"},
        "spec": {"clusterIP": "10.96.0.9", "ports": Ports([{"name": "a", "port": 1}])},
    }
    with pytest.raises(SetupError, match="use fewer or shorter arguments"):
        environment(POD, {"name": "c"}, lambda *_: None, PodFacts((), (), {}, (service,)))
    assert computed < 300_000
