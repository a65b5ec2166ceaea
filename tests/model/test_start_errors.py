"""Causes of containers that could not start, from the messages of container runtimes."""

import pytest

from windlass.model import start_errors

RUNC = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
MESSAGES = {
    "embedded": ('exec: "trian": executable file not found in $PATH', "trian: command not found"),
    "runc": (
        f'{RUNC}unable to start container process: exec: "trian": executable file not found in $PATH: unknown',
        "trian: command not found",
    ),
    "crun": (
        "executable file `trian` not found in $PATH: No such file or directory",
        "trian: command not found",
    ),
    "path": ('exec: "./a": stat ./a: no such file or directory: unknown', "./a: no such file or directory"),
    "permission": ('exec: "./a.sh": permission denied', "./a.sh: permission denied"),
    "format": ('exec: "./a.sh": exec format error', "./a.sh: exec format error"),
    "folder": (
        'chdir to cwd ("/data") set in config.json failed: No such file or directory',
        "working directory /data: no such file or directory",
    ),
    "other": ("no space left on device\nmore", "no space left on device"),
    "none": ("", "StartError"),
}


@pytest.mark.parametrize(("message", "text"), MESSAGES.values(), ids=MESSAGES)
def test_start_error_names_the_command_and_the_cause(message: str, text: str) -> None:
    assert start_errors.describe("StartError", message).text == text


def test_advice_names_the_place_where_a_command_is_missing() -> None:
    message = MESSAGES["embedded"][0]
    assert start_errors.describe("StartError", message).advice.endswith("installed on this machine.")
    assert start_errors.describe("StartError", message, "tf:2").advice.endswith(
        "installed in the image tf:2."
    )
