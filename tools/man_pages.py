"""Write the manual pages and the completion scripts, in the folders where programs look for them.

    python tools/man_pages.py FOLDER     e.g. ~/.local: FOLDER/share/man/man1/windlass.1 and others

The pages contain the help texts of the commands.
"""

import argparse
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

import command_docs  # next to this file
from windlass import __version__
from windlass.cli.main import COMMANDS, SECTIONS, main

COMPLETIONS: Final = {
    "bash": "share/bash-completion/completions/windlass",
    "zsh": "share/zsh/site-functions/_windlass",
    "fish": "share/fish/vendor_completions.d/windlass.fish",
}
PAGES: Final = "share/man/man1"


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    found = {"windlass.1": _main_page()}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        if command is None:
            raise LookupError(name)
        found[f"windlass-{name}.1"] = _page(
            f"windlass-{name}", COMMANDS[name], _command(command, f"windlass {name}")
        )
    return found


def _main_page() -> str:
    def lines() -> Iterator[str]:
        yield from _command(main, "windlass")
        for title, commands in SECTIONS.items():
            yield f'.SH "{title.upper()}"'
            for name, summary in commands.items():
                yield from (".TP", f".BR windlass\\-{_escaped(name)} (1)", _text(summary))

    return _page("windlass", "launch distributed training", lines())


def _page(name: str, summary: str, lines: Iterator[str]) -> str:
    # Reproducible builds set this variable.
    now = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), UTC)
    header = [
        f'.TH {name.upper()} 1 "{now:%Y-%m-%d}" "Windlass {__version__}" "Windlass Manual"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_text(summary)}",
    ]
    see = [] if name == "windlass" else [".SH SEE ALSO", ".BR windlass (1)"]
    return "\n".join([*header, *lines, *see]) + "\n"


def _command(command: click.Command, called: str, section: str = "SH") -> Iterator[str]:
    """Describe a command and, for a group, its subcommands."""
    usage = " ".join(command.collect_usage_pieces(click.Context(command, info_name=called)))
    yield f".{section} SYNOPSIS" if section == "SH" else f'.SH "{called.upper()}"'
    yield from (f".B {_escaped(called)}", _text(usage))
    if section == "SH":
        yield ".SH DESCRIPTION"
    else:
        yield ".PP"
    yield from _paragraphs(command.help or "")
    options = command_docs.options(command)
    if options and section == "SH":
        yield ".SH OPTIONS"
    for option in options:
        yield from _option(option)
    yield from _paragraphs(command.epilog or "")
    if isinstance(command, click.Group) and command is not main:
        for name, each in sorted(command.commands.items()):
            yield from _command(each, f"{called} {name}", "SS")


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        if not paragraph.strip():
            continue
        first, _, rest = paragraph.partition("\n")
        if first.strip(" ") == command_docs.VERBATIM:
            yield from (
                ".PP",
                ".RS 4",
                ".nf",
                *(_text(line.strip()) for line in rest.splitlines()),
                ".fi",
                ".RE",
            )
        else:
            yield from ([".PP"] if number else [])
            yield _text(" ".join(paragraph.split()))


def _option(option: click.Option) -> Iterator[str]:
    names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in (*option.opts, *option.secondary_opts))
    value = command_docs.value(option).replace("\\|", "|")
    yield ".TP"
    yield f"{names} \\fI{_escaped(value)}\\fR" if value else names
    yield _text(" ".join((*(option.help or "").split(), *command_docs.default(option))))


def _text(text: str) -> str:
    """Escape a line. One that begins with a control character would be a request."""
    escaped = _escaped(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return "".join(each if ord(each) < 128 else f"\\[u{ord(each):04X}]" for each in plain)


def completions() -> dict[str, str]:
    """Return the completion script of each shell."""
    command = [sys.executable, "-m", "windlass.cli.main", "completion"]
    return {
        shell: subprocess.run([*command, shell], capture_output=True, text=True, check=True).stdout  # noqa: S603
        for shell in COMPLETIONS
    }


def write(folder: Path) -> None:
    files = {f"{PAGES}/{name}": text for name, text in pages().items()}
    files |= {COMPLETIONS[shell]: text for shell, text in completions().items()}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)


if __name__ == "__main__":
    run()
