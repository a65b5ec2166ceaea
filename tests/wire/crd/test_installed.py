"""Comparison of an installed definition with the expected one."""

from typing import Any

import pytest

from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd import installed, manifests
from windlass.wire.crd.manifests import reference_crd

OURS = manifests.framework_crd(names.CONTROLLER_GROUP)


def changed(path: str, value: Any) -> Json:
    """Return the expected definition with another value at a path; None removes it."""
    definition: Json = _changed(OURS, path.split("/"), value)
    return definition


def _changed(node: Any, steps: list[str], value: Any) -> Any:
    step, *rest = steps
    if isinstance(node, list):
        return [_changed(item, rest, value) if int(step) == i else item for i, item in enumerate(node)]
    if rest:
        return {**node, step: _changed(node.get(step, {}), rest, value)}
    return {key: item for key, item in node.items() if key != step} | ({} if value is None else {step: value})


VERSION = "spec/versions/0"
SPEC = f"{VERSION}/schema/openAPIV3Schema/properties/spec"
STATUS = f"{VERSION}/schema/openAPIV3Schema/properties/status"


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (OURS, True),
        (manifests.framework_crd(names.CONTROLLER_GROUP, {("FrameworkSpec", "suspend"): "Hold it."}), True),
        (changed("spec/conversion", {"strategy": "None"}), True),
        (changed(f"{SPEC}/properties/someday", {"type": "string"}), True),
        (changed(f"{SPEC}/properties/executionType/enum", ["Create", "Start", "Stop", "Later"]), True),
        (changed(f"{SPEC}/properties/executionType/x-kubernetes-validations", None), False),
        (changed(f"{VERSION}/selectableFields", None), False),
        (changed(f"{SPEC}/properties/suspend", None), False),
        (changed(f"{SPEC}/properties/executionType/enum", ["Start", "Stop"]), False),
        (changed(f"{SPEC}/properties/suspend/default", True), False),
        (changed(f"{VERSION}/subresources", None), False),
        (changed(f"{VERSION}/served", False), False),
        (changed(f"{VERSION}/additionalPrinterColumns", []), False),
        (changed("spec/names/shortNames", None), False),
        (reference_crd(), False),
    ],
)
def test_definition_contains_the_expected_spec(live: Json, expected: bool) -> None:
    assert installed.contains_spec(live, OURS) is expected


@pytest.mark.parametrize(
    ("live", "dropped"),
    [
        (OURS, ()),
        (changed(f"{SPEC}/properties/suspend", None), ("spec.suspend",)),
        (
            changed(f"{SPEC}/properties/taskRoles/items/properties/taskNumber", None),
            ("spec.taskRoles[].taskNumber",),
        ),
        (changed(f"{STATUS}/properties/summary", None), ()),
        (changed(STATUS, {"type": "object", "properties": {"state": {"type": "string"}}}), "status."),
        (reference_crd(), "spec."),
    ],
)
def test_dropped_fields(live: Json, dropped: tuple[str, ...] | str) -> None:
    found = installed.dropped_fields(live, OURS)
    if isinstance(dropped, str):
        assert found
        assert all(field.startswith(dropped) for field in found)
    else:
        assert found == dropped


@pytest.mark.parametrize(
    ("conditions", "is_established", "why"),
    [
        ([], False, ""),
        ([{"type": "Established", "status": "True"}], True, ""),
        ([{"type": "Established", "status": "False", "reason": "Installing"}], False, "Installing"),
        (
            [
                {"type": "NamesAccepted", "status": "False", "message": '"fw" is already in use'},
                {"type": "Established", "status": "False", "message": "not all names are accepted"},
            ],
            False,
            '"fw" is already in use',
        ),
    ],
)
def test_established(conditions: list[Json], is_established: bool, why: str) -> None:
    definition = {**OURS, "status": {"conditions": conditions}}
    assert installed.is_established(definition) is is_established
    assert installed.why_not_established(definition) == why


@pytest.mark.parametrize(
    ("definition", "serves", "has_status"),
    [
        (OURS, True, True),
        (reference_crd(), True, False),
        (changed(f"{VERSION}/served", False), False, True),
        (changed(f"{VERSION}/name", "v2"), False, False),
        (changed(f"{VERSION}/subresources", {"scale": {}}), True, False),
    ],
)
def test_served_version_and_status_subresource(definition: Json, serves: bool, has_status: bool) -> None:
    assert installed.serves_version(definition) is serves
    assert installed.has_status_subresource(definition) is has_status
