"""What goes wrong while a command runs, told in one message. A traceback is for those who ask for it."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator

import click

from windlass.runner import exit_codes

DEBUG = "--debug"


class CommandError(Exception):
    """One message, and what to exit with."""

    def __init__(self, message: str, code: int = exit_codes.FAILED) -> None:
        super().__init__(message)
        self.code = code


class _NobodyReadsError(Exception):
    """A closed pipe, past click, which would exit with a code of its own."""


class _CtrlCError(Exception):
    """Past click, likewise."""


def open_missing_streams() -> None:
    """Somebody may have started us with `>&-`: what is written there goes nowhere, and into no file that we open."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 — until the end; `pathlib` takes a while


@contextlib.contextmanager
def past_click() -> Iterator[None]:
    """For `told`, around whatever click runs."""
    try:
        yield
    except BrokenPipeError as error:
        raise _NobodyReadsError from error
    except KeyboardInterrupt as error:
        raise _CtrlCError from error
    except click.Abort as error:
        # Of a question: click has made this of a Ctrl-C, or of an answer that was no.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise _CtrlCError from error
        raise


@contextlib.contextmanager
def told(*, is_debugging: bool) -> Iterator[None]:
    """Leaves by SystemExit, whatever happens in the block."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, _NobodyReadsError):
        _leave_quietly()
    except (KeyboardInterrupt, _CtrlCError):
        sys.exit(exit_codes.INTERRUPTED)
    except Exception as error:
        if is_debugging:
            raise
        message, code = explained(error)
        with contextlib.suppress(OSError):
            print(f"windlass: {_shown(message)}", file=sys.stderr)
        sys.exit(code)


def explained(error: Exception) -> tuple[str, int]:
    """The message, and what to exit with."""
    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, OSError):
        return of_the_system(error), exit_codes.FAILED
    fault = f"something went wrong that should not ({type(error).__name__}: {error})"
    advice = f"This is a fault of Windlass: please report it with the output of `windlass {DEBUG} …`."
    return f"{fault}. {advice}", exit_codes.FAILED


def _shown(message: str) -> str:
    """Part of it may be what a server, a file or somebody's fingers said."""
    from windlass.cli.terminal import text as terminal_text

    return "\n".join(map(terminal_text.plain, message.split("\n")))


def of_the_system(error: OSError, where: object = "") -> str:
    """What the system refuses, as a sentence; `where` is told if the system does not say it."""
    named = error.filename or where
    if is_for_want_of_room(error):
        place = f": {named}" if named else ""
        return f"no space is left on the device{place}. Make room, and run it again."
    if isinstance(error, FileNotFoundError) and not named and not _has_a_folder():
        return "the folder in which this was started is gone. Go to another, and run it again."
    return f"{named}: {error.strerror}" if named and error.strerror else str(error)


def _has_a_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 — `pathlib` takes a while
    except FileNotFoundError:
        return False
    return True


def is_for_want_of_room(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _leave_quietly() -> None:
    """Python would complain once more when it flushes what nobody reads."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    sys.exit(exit_codes.CLOSED_PIPE)
