"""Valid objects to start with, and custom resource definitions."""

import copy
import functools
import json
from pathlib import Path
from random import Random
from typing import Any

import yaml

from fuzzing.surface import Resource

Object = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMES = ("a", "b", "c", "d-1", "e.f")
NAMESPACES = ("default", "fuzz")
_CRDS = Path(__file__).parents[2] / "charts/windlass/definitions"


@functools.cache
def definitions() -> tuple[Object, ...]:
    """Return the definitions of this repository's kinds, and one with many features."""
    own = [yaml.safe_load(path.read_text()) for path in sorted(_CRDS.glob("*.*.yaml"))]
    return (*own, *(one for one in _read() if one["kind"] == "CustomResourceDefinition"))


def of(resource: Resource, dice: Random) -> Object:
    """Return a valid object of a kind, or a minimal one of an unknown kind."""
    version_and_kind = (resource.api_version, resource.kind)
    found = [one for one in _read() if (one["apiVersion"], one["kind"]) == version_and_kind]
    bare = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": {}}
    return copy.deepcopy(dice.choice(found)) if found else bare


def name_of_one(resource: Resource, dice: Random) -> str:
    """Return a valid name: that of a definition depends on its content."""
    if resource.kind == "CustomResourceDefinition":
        return str(definitions()[-1]["metadata"]["name"])
    return dice.choice(NAMES)


def named(resource: Resource, namespace: str, name: str, dice: Random) -> Object:
    obj = of(resource, dice)
    obj["metadata"]["name"] = name
    if resource.namespaced:
        obj["metadata"]["namespace"] = namespace
    return obj


@functools.cache
def _read() -> tuple[Object, ...]:
    text = (Path(__file__).parent / "objects.yaml").read_text()
    # Resolve YAML aliases, so that a change affects one place only.
    return tuple(json.loads(json.dumps(one)) for one in yaml.safe_load_all(text))
