"""Runs the barrier and returns its exit code (statements 46 to 48)."""

import time
from collections.abc import Mapping

import msgspec

from windlass.barrier import options as reading
from windlass.barrier import server, waiting
from windlass.barrier.options import Options
from windlass.barrier.waiting import Passed, Say
from windlass.discovery import files

PASSED, FAILED, TIMED_OUT, NO_FRAMEWORK = 0, 1, 201, 210
"""Exit codes. The controller treats 201 as a transient conflict, and 210 as a permanent failure."""


class Wanted(msgspec.Struct, frozen=True):
    framework: str = ""
    """Framework to wait for. Default: that of the pod."""
    prints_hosts: bool = False
    """Print the addresses instead of writing files."""
    configfile: str = ""


def run(wanted: Wanted, environment: Mapping[str, str], say: Say) -> int:
    began = time.monotonic()
    try:
        options = reading.read(environment, wanted.framework)
    except reading.BadOptionError as error:
        say(str(error))
        return NO_FRAMEWORK
    try:
        found = server.find(environment)
        waiter = waiting.Waiting(found, options, say, monotonic=time.monotonic, sleep=time.sleep)
        passed = waiter.wait()
        _tell(passed, options, wanted)
    except waiting.NoFrameworkError as error:
        say(str(error))
        return NO_FRAMEWORK
    except waiting.TimedOutError:
        say(
            f"timed out: not every task of {options.called} has an address after {options.timeout} s. See which wait: "
            f"kubectl get pods -n {options.namespace} -l FC_FRAMEWORK_NAME={options.framework}"
        )
        return TIMED_OUT
    except (waiting.NotAllowedError, server.NoAccessError) as error:
        say(str(error))
        return FAILED
    except OSError as error:
        where = error.filename or "a file"
        say(f"{where} cannot be written: {error.strerror}. Mount an emptyDir where the barrier runs.")
        return FAILED
    count = sum(len(role.members) for role in passed.gang.roles)
    say(f"all {count} tasks of {options.called} have addresses, after {time.monotonic() - began:.1f} s")
    return PASSED


def _tell(passed: Passed, options: Options, wanted: Wanted) -> None:
    if wanted.prints_hosts:
        print(files.shell_lists(passed.gang), end="", flush=True)
        return
    contents = files.contents(passed.gang, options.role, options.index, options.tf_config)
    if passed.framework is not None:
        contents[files.FRAMEWORK] = msgspec.json.encode(passed.framework).decode() + "\n"
    if configfile := wanted.configfile or options.configfile:
        contents[configfile] = files.configfile(passed.gang)
    for name, text in contents.items():
        with open(name, "wb", buffering=0) as file:  # noqa: PTH123 — a hundred barriers are released at once
            file.write(text.encode())
