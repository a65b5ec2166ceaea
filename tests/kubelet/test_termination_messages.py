"""The message that a container leaves behind: in a file, or the end of its log."""

from typing import Any

import pytest
from pods.place import Place
from pods.specs import container, mounted, scratch

FALLBACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}


def last_words(place: Place, script: str, **fields: Any) -> str | None:
    seen = place.start(mounted(script, **fields), volumes=scratch()).ended()
    message: str | None = (seen.terminated() or {}).get("message")
    return message


MESSAGES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "file": ("printf why > /dev/termination-log; exit 1", {}, "why"),
    "success": ("printf well > /dev/termination-log", {}, "well"),
    "lines": ("printf 'a\\nb\\n' > /dev/termination-log", {}, "a\nb\n"),
    "none": ("echo log; exit 1", {}, None),
    "another-path": ("printf why > /data/message", {"terminationMessagePath": "/data/message"}, "why"),
    "path-not-there": (
        "printf why > /some/where/message",
        {"terminationMessagePath": "/some/where/message"},
        "why",
    ),
    "log": ("echo one; echo two; exit 1", FALLBACK, "one\ntwo\n"),
    "file-before-log": ("echo log; printf why > /dev/termination-log; exit 1", FALLBACK, "why"),
    "no-log-of-a-success": ("echo log", FALLBACK, None),
    "long-file": ("printf %5000s end > /dev/termination-log", {}, " " * 4093 + "end"),
    "long-log": ("printf '%3000s\\n' end; exit 1", FALLBACK, " " * 2044 + "end\n"),
    "many-lines": ("seq 200; exit 1", FALLBACK, "".join(f"{n}\n" for n in range(121, 201))),
}


@pytest.mark.parametrize(("script", "fields", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_termination_messages(
    place: Place, script: str, fields: dict[str, Any], expected: str | None
) -> None:
    assert last_words(place, script, **fields) == expected


def test_each_run_has_its_own_message(place: Place) -> None:
    script = """
        [ -s /dev/termination-log ] && exit 9
        if [ -e /data/x ]; then printf second > /dev/termination-log; exit 0; fi
        touch /data/x; printf first > /dev/termination-log; exit 1"""
    seen = place.start(mounted(script), volumes=scratch(), restartPolicy="OnFailure").ended()
    assert (seen.last()["message"], (seen.terminated() or {})["message"]) == ("first", "second")


def test_each_container_has_its_own_message(place: Place) -> None:
    both = [container(f"printf {name} > /dev/termination-log", name) for name in ("a", "b")]
    seen = place.start(*both).ended()
    assert [(seen.terminated(name) or {})["message"] for name in ("a", "b")] == ["a", "b"]
