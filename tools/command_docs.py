"""Generate the command-line reference from usage, help texts and options of the commands."""

import inspect
from collections.abc import Iterator, Sequence

import click

from windlass.cli.main import SECTIONS, main

_CLUSTER = ("kubeconfig", "context", "namespace")
"""Options shared by many commands, documented once."""
VERBATIM = "\b"
"""Start of a paragraph that click does not wrap."""
_INTRODUCTION = """\
# The command line

`COMMAND --help` prints the same text. See also [exit codes](exit-codes.md). `windlass --debug COMMAND` shows the
traceback of an error.

## Which cluster

Commands for a cluster find it like kubectl: by `KUBECONFIG`, by the service account of a pod, or by
`~/.kube/config`. They share these options:

| option | meaning |
|---|---|
"""


def page() -> str:
    parts = [_INTRODUCTION + "".join(map(_row, _shared()))]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts.extend(_command(_known(name), f"windlass {name}"))
    return "\n".join(parts)


def _shared() -> Sequence[click.Option]:
    """Document the shared options as those of `submit`."""
    return [option for option in options(_known("submit")) if option.name in _CLUSTER]


def _known(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    if command is None:
        raise LookupError(name)
    return command


def _command(command: click.Command, called: str) -> Iterator[str]:
    """Document a command and, for a group, its subcommands."""
    context = click.Context(command, info_name=called)
    if isinstance(command, click.Group):
        yield f"### {called}\n\n{_text(command.help)}"
        for name, each in sorted(command.commands.items()):
            yield from _command(each, f"{called} {name}")
        return
    usage = " ".join((called, *command.collect_usage_pieces(context)))
    yield f"### {called}\n\n    {usage}\n\n{_text(command.help)}"
    listed = options(command)
    shared = {(option.name, option.help) for option in _shared()}
    own = [option for option in listed if (option.name, option.help) not in shared]
    is_for_a_cluster = len(own) < len(listed)
    if own:
        yield "| option | meaning |\n|---|---|\n" + "".join(map(_row, own))
    if is_for_a_cluster:
        yield "Also: the options for [the cluster](#which-cluster).\n"
    if command.epilog:
        yield _text(command.epilog)


def _text(help_text: str | None) -> str:
    """Format paragraphs; unwrapped ones become code."""
    return "\n".join(map(_paragraph, inspect.cleandoc(help_text or "").split("\n\n")))


def _paragraph(text: str) -> str:
    first, _, rest = text.partition("\n")
    if first.strip(" ") == VERBATIM:
        return "".join(f"    {line.strip()}\n" for line in rest.splitlines())
    return " ".join(text.split()) + "\n"


def options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def _row(option: click.Option) -> str:
    text = value(option)
    # The short option first, as in --help.
    names = sorted((*option.opts, *option.secondary_opts), key=lambda name: name.startswith("--"))
    called = ", ".join(f"`{name}`" for name in names[:-1]) + (", " if len(names) > 1 else "")
    called += f"`{names[-1]} {text}`" if text else f"`{names[-1]}`"
    meaning = " ".join((*(option.help or "").split(), *default(option)))
    return f"| {called} | {meaning} |\n"


def value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return "\\|".join(map(str, option.type.choices))
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Path):
        return "DIR" if option.type.dir_okay else "FILE"
    return "N" if isinstance(option.type, click.IntRange) else "VALUE"


def default(option: click.Option) -> Iterator[str]:
    if option.show_default and not option.is_flag:
        yield f"Default: `{option.default}`."
