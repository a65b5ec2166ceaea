"""Report errors of commands as one message and an exit code. --debug shows the traceback instead."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator

import click

from windlass.runner import exit_codes

DEBUG = "--debug"


class CommandError(Exception):
    """A message for the user with an exit code."""

    def __init__(self, message: str, code: int = exit_codes.FAILED) -> None:
        super().__init__(message)
        self.code = code


class _PipeClosedError(Exception):
    """A BrokenPipeError, hidden from click, which would use an exit code of its own."""


class _InterruptedError(Exception):
    """A KeyboardInterrupt, hidden from click for the same reason."""


def open_missing_streams() -> None:
    """Replace closed streams (`>&-`) with /dev/null, so that output does not end up in another file."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 — stays open; importing `pathlib` is slow


def safe_terminal() -> contextlib.AbstractContextManager[None]:
    """Return a context in which text that is printed to a terminal cannot control it, except by colours."""
    if not (sys.stdout.isatty() or sys.stderr.isatty()):
        return contextlib.nullcontext()
    from windlass.cli.terminal import safe_streams

    return safe_streams.installed()


@contextlib.contextmanager
def bypassing_click() -> Iterator[None]:
    """Pass exceptions that click would handle on to `reporting_errors`."""
    try:
        yield
    except BrokenPipeError as error:
        raise _PipeClosedError from error
    except KeyboardInterrupt as error:
        raise _InterruptedError from error
    except click.Abort as error:
        # click raises Abort in a prompt: after Ctrl-C, at the end of the input, or after the answer no.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise _InterruptedError from error
        raise


@contextlib.contextmanager
def reporting_errors(*, is_debugging: bool) -> Iterator[None]:
    """Print an error of the block, or its traceback if `is_debugging`, and raise SystemExit. A closed pipe and Ctrl-C
    only determine the exit code."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, _PipeClosedError):
        _exit_on_closed_pipe()
    except (KeyboardInterrupt, _InterruptedError):
        sys.exit(exit_codes.INTERRUPTED)
    except Exception as error:
        message, code = describe_error(error)
        with contextlib.suppress(OSError):
            if is_debugging:
                import traceback

                traceback.print_exc()
            else:
                print(f"windlass: {_printable(message)}", file=sys.stderr)
        sys.exit(code)


def describe_error(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code."""
    # Imported here: these imports are slow.
    from windlass.client.errors import ClientError
    from windlass.runner.local.data_folders import LocalClusterError

    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, ClientError):
        return str(error), exit_codes.of_client_error(error)
    if isinstance(error, LocalClusterError):
        return str(error), exit_codes.FAILED
    if isinstance(error, OSError):
        return os_error_message(error), exit_codes.FAILED
    failure = f"internal error: {type(error).__name__}: {error}"
    return f"{failure}. Please report this with the output of `windlass {DEBUG} …`.", exit_codes.FAILED


def _printable(message: str) -> str:
    """Remove control characters, since parts of the message may come from a server, a file or the command line."""
    from windlass.cli.terminal import text as terminal_text

    return "\n".join(map(terminal_text.printable, message.split("\n")))


def note(message: str) -> None:
    """Print a note about the command to stderr."""
    click.echo(f"windlass: {message}", err=True)


def os_error_message(error: OSError, path: object = "") -> str:
    """Return the message of a system error. `path` is used if the error does not name a file."""
    name = error.filename or path
    if is_disk_full(error):
        where = f": {name}" if name else ""
        return f"no space left on device{where}. Free some space and run the command again."
    if isinstance(error, FileNotFoundError) and not name and not _has_working_directory():
        return "the working directory was deleted. Change to another one and run the command again."
    return f"{name}: {error.strerror}" if name and error.strerror else str(error)


def _has_working_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 — importing `pathlib` is slow
    except FileNotFoundError:
        return False
    return True


def is_disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _exit_on_closed_pipe() -> None:
    """Exit with stdout redirected to /dev/null: otherwise Python would report the closed pipe again when it flushes."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    sys.exit(exit_codes.CLOSED_PIPE)
