"""Validation of pod templates: unknown fields are warnings, wrong types are errors."""

from typing import Any

import msgspec
import pytest

from windlass.wire import kubernetes_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import parse as yaml_parse

CONTAINER = "pod.spec.containers[0]"


def check(template: dict[str, Any]) -> list[Diagnostic]:
    return list(
        kubernetes_validation.check(
            yaml_parse.parse(msgspec.json.encode(template)).documents[0].root,
            kubernetes_validation.POD_TEMPLATE,
            "pod",
        )
    )


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
def test_valid_template_has_no_diagnostics(template: dict[str, Any]) -> None:
    assert check(template) == []


@pytest.mark.parametrize(
    ("template", "path", "message"),
    [
        pytest.param(pod(image=5), f"{CONTAINER}.image",
                     "found the number 5, expected a string: put it in quotes", id="image"),
        pytest.param(pod(tty="yes"), f"{CONTAINER}.tty",
                     'found the string "yes", expected true or false', id="boolean"),
        pytest.param(pod(command="ls"), f"{CONTAINER}.command", 'found the string "ls", expected a list', id="command"),
        pytest.param(pod(command=["ls", None]), f"{CONTAINER}.command[1]",
                     "found null, expected a string", id="null item"),
        pytest.param(pod(ports=[{"containerPort": "80"}]), f"{CONTAINER}.ports[0].containerPort",
                     'found the string "80", expected an integer of at most 64 bits: remove the quotes', id="port"),
        pytest.param(pod(ports=[{"containerPort": 2**63}]), f"{CONTAINER}.ports[0].containerPort",
                     "found the number 9223372036854775808, expected an integer of at most 64 bits", id="int64"),
        pytest.param(pod(env=[{"name": "A", "value": True}]), f"{CONTAINER}.env[0].value",
                     "found the boolean true, expected a string: put it in quotes", id="env"),
        pytest.param(pod(resources={"limits": {"a/b": "lots"}}), CONTAINER + '.resources.limits["a/b"]',
                     'found the string "lots", expected a quantity such as 2, 500m or 16Gi', id="quantity"),
        pytest.param(pod(resources=[]), f"{CONTAINER}.resources",
                     "found a list, expected a mapping (ResourceRequirements)", id="object"),
        pytest.param(pod({"nodeSelector": "gpu"}), "pod.spec.nodeSelector",
                     'found the string "gpu", expected a mapping', id="map"),
        pytest.param(pod(volumeMounts=[{"name": "v"}]), f"{CONTAINER}.volumeMounts[0]",
                     'missing required field "mountPath" of VolumeMount', id="required"),
        pytest.param({"spec": {"containers": [{"image": "x"}]}}, CONTAINER,
                     'missing required field "name" of Container', id="name"),
        pytest.param({"spec": {"containers": None}}, "pod.spec",
                     'missing required field "containers" of PodSpec', id="containers"),
        pytest.param([], "pod", "found a list, expected a mapping (PodTemplateSpec)", id="template"),
    ],
)  # fmt: skip
def test_wrong_type_is_an_error(template: dict[str, Any], path: str, message: str) -> None:
    (diagnostic,) = check(template)

    assert (diagnostic.is_error, diagnostic.path, diagnostic.message) == (True, path, message)


@pytest.mark.parametrize(
    ("template", "path", "kind", "suggestion", "rule"),
    [
        (pod(olumeMounts=[]), f"{CONTAINER}.olumeMounts", "Container", 'Did you mean "volumeMounts"?',
         Rule.MISSPELT_FIELD),
        (pod(Image="x"), f"{CONTAINER}.Image", "Container", 'Did you mean "image"?', Rule.MISSPELT_FIELD),
        (pod({"ActiveDeadlineSeconds": 60}), "pod.spec.ActiveDeadlineSeconds", "PodSpec",
         'Did you mean "activeDeadlineSeconds"?', Rule.MISSPELT_FIELD),
        (pod({"hostnetwork": True}), "pod.spec.hostnetwork", "PodSpec", 'Did you mean "hostNetwork"?',
         Rule.MISSPELT_FIELD),
        (pod(quux=1), f"{CONTAINER}.quux", "Container", "No similar name is known.", Rule.UNKNOWN_FIELD),
        ({**pod(), "quux": 1}, "pod.quux", "PodTemplateSpec", "Known names: metadata, spec.", Rule.UNKNOWN_FIELD),
    ],
)  # fmt: skip
def test_unknown_field_is_a_warning_with_the_consequence(
    template: dict[str, Any], path: str, kind: str, suggestion: str, rule: Rule
) -> None:
    (diagnostic,) = check(template)

    field = path.rpartition(".")[2]
    assert (diagnostic.is_error, diagnostic.path, diagnostic.rule) == (False, path, rule)
    assert diagnostic.message == f'unknown field "{field}" of {kind}. {suggestion}'


REMOVED = {
    "without a selector": (
        "{apiVersion: extensions/v1beta1, kind: Deployment, spec: {replicas: 1}}",
        (
            "Kubernetes 1.16 and later have no Deployment in extensions/v1beta1. "
            "Use apps/v1, and set spec.selector, which it requires."
        ),
    ),
    "with a selector": (
        "{apiVersion: apps/v1beta1, kind: StatefulSet, spec: {selector: {}}}",
        "Kubernetes 1.16 and later have no StatefulSet in apps/v1beta1. Use apps/v1.",
    ),
    "another kind": (
        "{apiVersion: apps/v1alpha1, kind: PetSet}",
        "Kubernetes 1.5 and later have no PetSet in apps/v1alpha1. Use a StatefulSet of apps/v1.",
    ),
}


@pytest.mark.parametrize(("text", "message"), REMOVED.values(), ids=REMOVED)
def test_removed_api_version_is_a_warning_with_the_current_one(text: str, message: str) -> None:
    (document,) = yaml_parse.parse(text.encode()).documents
    (diagnostic,) = kubernetes_validation.check_api_version(document.root, "items[0]")
    assert (diagnostic.is_error, diagnostic.path, diagnostic.message) == (
        False,
        "items[0].apiVersion",
        message,
    )


@pytest.mark.parametrize(
    "text", ["{apiVersion: apps/v1, kind: Deployment}", "{apiVersion: 1, kind: []}", "[]", "a"]
)
def test_other_api_versions_have_no_warning(text: str) -> None:
    (document,) = yaml_parse.parse(text.encode()).documents
    assert list(kubernetes_validation.check_api_version(document.root, "")) == []
