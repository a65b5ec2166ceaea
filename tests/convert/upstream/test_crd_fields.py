"""Every field of the published CRDs is in exactly one of the lists: mapped, without effect, refused."""

from collections.abc import Iterator

import pytest
from tests.convert.upstream import modules
from tests.convert.upstream.modules import Module

from windlass.convert import jobset, kinds, trainjob
from windlass.convert.conversion import Keys
from windlass.convert.fields import Kind
from windlass.model.base import Json

CRDS = [(module, crd) for module in modules.MODULES for crd in module.crds]
POD_TEMPLATES = ("template", "podTemplate", "podTemplateSpec")
"""Their fields are those of Kubernetes, which are passed on."""


def leaves(schema: Json, keys: Keys) -> Iterator[Keys]:
    """Yield the paths of the fields without fields of their own. Keys of maps and items of lists are `*`."""
    properties, values = schema.get("properties"), schema.get("additionalProperties")
    if keys[-1] in POD_TEMPLATES and "containers" in _below(schema, "spec"):
        yield from ((*keys, name) for name in ("metadata", "spec"))
    elif properties:
        for name, below in properties.items():
            yield from leaves(below, (*keys, name))
    elif isinstance(values, dict):
        yield from leaves(values, (*keys, "*"))
    elif isinstance(schema.get("items"), dict):
        yield from leaves(schema["items"], (*keys, "*"))
    else:
        yield keys


def _below(schema: Json, name: str) -> Json:
    found: Json = ((schema.get("properties") or {}).get(name) or {}).get("properties") or {}
    return found


def converted(module: Module, crd: str) -> Iterator[tuple[Kind, Json]]:
    (body,) = modules.documents_of(module.folder() / crd)
    for version in body["spec"]["versions"]:
        api_version = f"{body['spec']['group']}/{version['name']}"
        for kind in kinds.kinds():
            if (kind.api_version, kind.kind) == (api_version, body["spec"]["names"]["kind"]):
                assert kind.plural == body["spec"]["names"]["plural"]
                yield kind, version["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize(
    ("module", "crd"), CRDS, ids=lambda each: each.id if isinstance(each, Module) else each
)
def test_every_field_is_in_exactly_one_list(module: Module, crd: str) -> None:
    found = list(converted(module, crd))
    assert found, f"no kind of {crd} is converted"
    for kind, schema in found:
        paths = list(leaves(schema["properties"]["spec"], ("spec",)))
        assert len(paths) > 5
        lists = {".".join(map(str, keys)): kind.fields.lists_of(keys) for keys in paths}
        assert {path: names for path, names in lists.items() if len(names) != 1} == {}


@pytest.mark.parametrize(
    ("module", "crd"), CRDS, ids=lambda each: each.id if isinstance(each, Module) else each
)
def test_every_pattern_names_a_field(module: Module, crd: str) -> None:
    for kind, schema in converted(module, crd):
        known = {
            ".".join(map(str, keys[:end]))
            for keys in leaves(schema["properties"]["spec"], ("spec",))
            for end in range(1, len(keys) + 1)
        }
        patterns = (*kind.fields.mapped, *kind.fields.no_effect, *kind.fields.refused)
        unknown = {each for each in patterns if each.startswith("spec.") and each not in known}
        assert {each for each in unknown if not any(part in each for part in POD_TEMPLATES)} == set()


@pytest.mark.parametrize("kind", ["trainingruntimes", "clustertrainingruntimes"])
def test_every_field_of_a_runtime_is_in_exactly_one_list(kind: str) -> None:
    """A TrainJob refers to a runtime, whose template is a JobSet."""
    crd = modules.TRAINER.folder() / f"manifests/base/crds/trainer.kubeflow.org_{kind}.yaml"
    (body,) = modules.documents_of(crd)
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    template = spec["properties"]["template"]["properties"]["spec"]
    for fields, schema in ((trainjob.RUNTIME_FIELDS, spec), (jobset.FIELDS, template)):
        paths = list(leaves(schema, ("spec",)))
        assert len(paths) > 50
        assert [keys for keys in paths if len(fields.lists_of(keys)) != 1] == []
