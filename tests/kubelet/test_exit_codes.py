"""Exit codes of containers: own exit, signal, or start error."""

import pytest
from pods.place import Place
from pods.specs import container, mounted, scratch


@pytest.mark.parametrize("code", [0, 1, 2, 42, 126, 127, 128, 255])
def test_exit_code_is_reported(place: Place, code: int) -> None:
    seen = place.start(f"exit {code}").ended()
    assert seen.exit_code() == code
    assert seen.phase == ("Failed" if code else "Succeeded")
    assert (seen.terminated() or {})["reason"] == ("Error" if code else "Completed")


@pytest.mark.parametrize(("name", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139), ("INT", 130)])
def test_signal_is_reported_as_128_plus_number(place: Place, name: str, code: int) -> None:
    """The signal ends a child, since PID 1 cannot kill itself. `$$$$` is expanded to `$$`."""
    seen = place.start(f"sh -c 'kill -{name} $$$$'; exit $?").ended()
    assert (seen.exit_code(), (seen.terminated() or {})["reason"]) == (code, "Error")


NOT_STARTED = {
    "no-such-command": "there-is-no-such-command",
    "no-such-path": "/there/is/no/such/command",
    "not-executable": "/etc/passwd",
    "folder": "/etc",
}


@pytest.mark.parametrize("named", NOT_STARTED.values(), ids=NOT_STARTED)
def test_invalid_command_is_a_start_error(place: Place, named: str) -> None:
    seen = place.start([named]).ended()
    terminated = seen.terminated() or {}
    assert seen.phase == "Failed"
    assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
    assert named in terminated["message"]


def test_start_error_has_the_epoch_as_start_time(place: Place) -> None:
    terminated = place.start(["there-is-no-such-command"]).ended().terminated() or {}
    assert terminated["startedAt"] == "1970-01-01T00:00:00Z"


def test_empty_command_name(place: Place) -> None:
    terminated = place.start([""]).ended().terminated() or {}
    assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
    assert 'exec: "": executable file not found in $PATH' in terminated["message"]


def test_start_error_is_retried(place: Place) -> None:
    pod = place.start(["there-is-no-such-command"], restartPolicy="Always")
    seen = pod.waiting("CrashLoopBackOff")
    assert (seen.phase, seen.last()["exitCode"]) == ("Running", 128)
    assert "there-is-no-such-command" in pod.event("Failed")["message"]


def test_file_as_working_directory_is_an_error(place: Place) -> None:
    seen = place.start(container("true", workingDir="/etc/passwd")).ended()
    assert (seen.phase, seen.exit_code()) == ("Failed", 128)


def test_missing_working_directory_is_created(place: Place) -> None:
    """As runc does it."""
    assert place.start(container("pwd", workingDir="/there/was/no/such")).output() == ["/there/was/no/such"]


def test_directory_mount_over_a_file_is_an_error(place: Place) -> None:
    pod = place.start(mounted("true", at="/etc/passwd"), volumes=scratch())
    seen = pod.wait("to fail", lambda seen: seen.is_over or "Error" in seen.waits_for())
    assert seen.phase != "Succeeded"
    said = {**(seen.terminated() or {}), **(seen.waiting() or {})}
    assert "/etc/passwd" in said["message"]


def test_child_processes_end_with_the_container(place: Place) -> None:
    """The log of a container ends with its main process, even if other processes hold it open."""
    pod = place.start("sleep 100000 & echo done")
    assert pod.output() == ["done"]
