"""Runs the barrier and returns its exit code (statements 46 to 48 of docs/behaviours.md)."""

import time
from collections.abc import Mapping

import msgspec

from windlass.barrier import api_client, waiting
from windlass.barrier import options as option_reader
from windlass.barrier.options import Options
from windlass.barrier.waiting import BarrierResult, Log
from windlass.discovery import files

PASSED, FAILED, TIMED_OUT, PERMANENT_FAILURE = 0, 1, 201, 210
"""Exit codes. The controller treats 201 as a transient conflict, and 210 as a permanent failure."""


def run(
    environment: Mapping[str, str],
    log: Log,
    *,
    framework: str = "",
    prints_hosts: bool = False,
    configfile: str = "",
) -> int:
    """Wait until all tasks of the Framework (default: the pod's own) have addresses, then print the addresses or write
    the files. Return the exit code."""
    start = time.monotonic()
    try:
        options = option_reader.read(environment, framework)
    except option_reader.InvalidOptionError as error:
        log(str(error))
        return PERMANENT_FAILURE
    try:
        client = api_client.client_from_environment(environment)
        waiter = waiting.GangWaiter(client, options, log, monotonic=time.monotonic, sleep=time.sleep)
        result = waiter.wait()
        if prints_hosts:
            print(files.shell_lists(result.gang), end="", flush=True)
        else:
            _write_files(result, options, configfile or options.configfile)
    except waiting.FrameworkNotFoundError as error:
        log(str(error))
        return PERMANENT_FAILURE
    except waiting.TimedOutError:
        log(
            f"timed out after {options.timeout} s: not all tasks of {options.qualified_name} are known to have an "
            f"address. List its pods: kubectl get pods -n {options.namespace} -l FC_FRAMEWORK_NAME={options.framework}"
        )
        return TIMED_OUT
    except (waiting.ForbiddenError, api_client.NoCredentialsError) as error:
        log(str(error))
        return FAILED
    except OSError as error:
        if prints_hosts:
            log(f"cannot print the addresses: {error.strerror}")
            return FAILED
        where = error.filename or "a file"
        log(
            f"cannot write {where}: {error.strerror}. Mount an emptyDir at the working directory of the barrier."
        )
        return FAILED
    count = sum(len(role.members) for role in result.gang.roles)
    log(
        f"all {count} tasks of {options.qualified_name} have addresses, after {time.monotonic() - start:.1f} s"
    )
    return PASSED


def _write_files(result: BarrierResult, options: Options, configfile: str) -> None:
    contents = files.contents(result.gang, options.role, options.index, options.tf_config)
    if result.framework is not None:
        contents[files.FRAMEWORK] = msgspec.json.encode(result.framework).decode() + "\n"
    if configfile:
        contents[configfile] = files.configfile(result.gang)
    for name, text in contents.items():
        with open(name, "wb", buffering=0) as file:  # noqa: PTH123 — faster than `pathlib`: a hundred barriers may finish at once
            file.write(text.encode())
