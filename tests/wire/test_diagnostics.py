"""Formatting, paths and suggestions of diagnostics."""

import pytest

from windlass.wire import diagnostics
from windlass.wire.diagnostics import InvalidFileError, Severity
from windlass.wire.yaml.text import Position


@pytest.mark.parametrize(
    ("diagnostic", "line"),
    [
        (diagnostics.error(Position(3, 7), "spec.x", "no"), "f.yaml:3:7: error: spec.x: no"),
        (diagnostics.warning(Position(1, 1), "", "hm"), "f.yaml:1:1: warning: hm"),
        (
            diagnostics.error(Position(1, 1), "a", "two\nlines\x1b[31m é"),
            "f.yaml:1:1: error: a: two\\nlines\\x1b[31m é",
        ),
    ],
)
def test_diagnostic_is_formatted_as_one_line(diagnostic: diagnostics.Diagnostic, line: str) -> None:
    assert str(diagnostic.with_file("f.yaml")) == line


def test_invalid_file_error_contains_all_diagnostics() -> None:
    both = [diagnostics.error(Position(line, 1), "a", "no").with_file("f") for line in (1, 2)]

    assert str(InvalidFileError(both)) == "f:1:1: error: a: no\nf:2:1: error: a: no"


def test_long_values_are_truncated() -> None:
    diagnostic = diagnostics.error(
        Position(1, 1), diagnostics.field("a", "k" * 10_000), diagnostics.quoted("v" * 10_000)
    )

    assert len(str(diagnostic)) < 200


@pytest.mark.parametrize(
    ("path", "key", "whole"),
    [
        ("", "spec", "spec"),
        ("spec", "x-y", "spec.x-y"),
        ("labels", "a.b/c", 'labels["a.b/c"]'),
        ("a", "", 'a[""]'),
    ],
)
def test_field_path(path: str, key: str, whole: str) -> None:
    assert diagnostics.field(path, key) == whole


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("olumeMounts", "volumeMounts"),
        ("volumemounts", "volumeMounts"),
        ("volume_mounts", "volumeMounts"),
        ("evn", "env"),
        ("imagePullPolice", "imagePullPolicy"),
        ("x", None),
        ("gpus", None),
        ("v" * 1000, None),
    ],
)
def test_nearest_name(name: str, meant: str | None) -> None:
    assert (
        diagnostics.nearest(name, ("env", "image", "imagePullPolicy", "volumeDevices", "volumeMounts"))
        == meant
    )


def test_collect_removes_duplicates_and_sorts() -> None:
    late, early = (diagnostics.error(Position(line, 1), "a", "no") for line in (5, 2))
    again = diagnostics.error(Position(5, 1), "elsewhere", "no")

    assert [
        (diagnostic.line, diagnostic.path) for diagnostic in diagnostics.collect([late, again, early], "f")
    ] == [
        (2, "a"),
        (5, "a"),
    ]


def test_severity_changes_in_a_copy() -> None:
    warned = diagnostics.warning(Position(1, 1), "a", "no")

    assert warned.with_severity(Severity.ERROR).is_error
    assert not warned.is_error
