"""Pod templates are held against the schema of Kubernetes: unknown fields warn, wrong types are errors."""

from typing import Any

import msgspec
import pytest

from windlass.wire import pod_schema
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import parse as yaml_parse

CONTAINER = "pod.spec.containers[0]"


def check(template: dict[str, Any]) -> list[Diagnostic]:
    return list(pod_schema.check(yaml_parse.parse(msgspec.json.encode(template)).documents[0].root, "pod"))


def pod(spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "tf", **container}], **(spec or {})}}


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(pod(), id="least"),
        pytest.param({**pod(), "metadata": {"labels": {"a": "b"}, "creationTimestamp": None}}, id="metadata"),
        pytest.param(
            pod(resources={"limits": {"cpu": 0.5, "memory": "16Gi", "nvidia.com/gpu": 1}}), id="quantities"
        ),
        pytest.param(pod(livenessProbe={"httpGet": {"port": "http"}}), id="named port"),
        pytest.param(pod(livenessProbe={"httpGet": {"port": 80}}), id="numbered port"),
        pytest.param(pod(lifecycle={"preStop": {"exec": {"command": ["true"]}}}), id="exec"),
        pytest.param(
            pod({"nodeSelector": {"a": "b"}, "tolerations": None, "securityContext": {}}), id="maps and nulls"
        ),
        pytest.param(
            pod(
                {
                    "volumes": [
                        {"name": "v", "hostPath": {"path": "/"}},
                        {"name": "e", "emptyDir": {"sizeLimit": "1G"}},
                    ]
                }
            ),
            id="volumes",
        ),
    ],
)
def test_fits(template: dict[str, Any]) -> None:
    assert check(template) == []


@pytest.mark.parametrize(
    ("template", "path", "words"),
    [
        pytest.param(pod(image=5), f"{CONTAINER}.image", 'number 5, expected a string: put it', id="image"),
        pytest.param(pod(tty="yes"), f"{CONTAINER}.tty", "expected true or false", id="boolean"),
        pytest.param(pod(command="ls"), f"{CONTAINER}.command", "expected a list", id="command"),
        pytest.param(pod(command=["ls", None]), f"{CONTAINER}.command[1]", "found null", id="null item"),
        pytest.param(pod(ports=[{"containerPort": "80"}]), f"{CONTAINER}.ports[0].containerPort", "remove", id="port"),
        pytest.param(pod(ports=[{"containerPort": 2**63}]), f"{CONTAINER}.ports[0].containerPort", "64", id="int64"),
        pytest.param(pod(env=[{"name": "A", "value": True}]), f"{CONTAINER}.env[0].value", "quotes", id="env"),
        pytest.param(pod(resources={"limits": {"a/b": "lots"}}), CONTAINER + '.resources.limits["a/b"]', "quantity",
                     id="quantity"),
        pytest.param(pod(resources=[]), f"{CONTAINER}.resources", "a mapping (ResourceRequirements)", id="object"),
        pytest.param(pod({"nodeSelector": "gpu"}), "pod.spec.nodeSelector", "expected a mapping", id="map"),
        pytest.param(pod(volumeMounts=[{"name": "v"}]), f"{CONTAINER}.volumeMounts[0]", '"mountPath"', id="required"),
        pytest.param({"spec": {"containers": [{"image": "x"}]}}, CONTAINER, 'missing required field "name"', id="name"),
        pytest.param({"spec": {"containers": None}}, "pod.spec", 'required field "containers"', id="containers"),
        pytest.param([], "pod", "a mapping (PodTemplateSpec)", id="template"),
    ],
)  # fmt: skip
def test_error(template: dict[str, Any], path: str, words: str) -> None:
    (diagnostic,) = check(template)

    assert (diagnostic.is_error, diagnostic.path) == (True, path)
    assert words in diagnostic.message


@pytest.mark.parametrize(
    ("template", "path", "words", "rule"),
    [
        (pod(olumeMounts=[]), f"{CONTAINER}.olumeMounts", '"volumeMounts"?', Rule.MISSPELT_FIELD),
        (pod(Image="x"), f"{CONTAINER}.Image", '"image"?', Rule.MISSPELT_FIELD),
        (pod({"hostnetwork": True}), "pod.spec.hostnetwork", '"hostNetwork"?', Rule.MISSPELT_FIELD),
        (pod(quux=1), f"{CONTAINER}.quux", "There is no similar name", Rule.UNKNOWN_FIELD),
        ({**pod(), "quux": 1}, "pod.quux", "Known names: metadata, spec", Rule.UNKNOWN_FIELD),
    ],
)
def test_unknown_field_is_a_warning(template: dict[str, Any], path: str, words: str, rule: Rule) -> None:
    (diagnostic,) = check(template)

    assert (diagnostic.is_error, diagnostic.path, diagnostic.rule) == (False, path, rule)
    assert "unknown field" in diagnostic.message
    assert words in diagnostic.message
