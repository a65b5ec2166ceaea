"""The `windlass` command. Knows the commands by name and imports one only when it is run.

Whatever goes wrong leaves here, as one message and an exit code: see `exit_codes`.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass import __version__
from windlass.cli import errors

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    module: str
    """Has the command under its own name."""
    summary: str
    """What `windlass --help` says about it."""


COMMANDS = {
    "barrier": LazyCommand(
        "windlass.cli.commands.barrier", "Wait until every task of this pod's job has an address."
    ),
    "controller": LazyCommand(
        "windlass.cli.commands.controller", "Run the jobs of a cluster, in it or from a laptop."
    ),
    "init": LazyCommand(
        "windlass.cli.commands.init", "Write a job file, with what a script says about itself."
    ),
    "install": LazyCommand(
        "windlass.cli.commands.install", "Print what a cluster needs to run jobs, or put it there."
    ),
    "lint": LazyCommand(
        "windlass.cli.commands.lint", "Say what is wrong with job files and Frameworks, and mend it."
    ),
    "local": LazyCommand(
        "windlass.cli.commands.local", "Keep a cluster on this machine, without Docker and without root."
    ),
    "env": LazyCommand("windlass.cli.commands.env", "Print what a task is told of its peers, for a shell."),
    "plan": LazyCommand("windlass.cli.commands.plan", "Say what would become of a job when things go wrong."),
    "render": LazyCommand(
        "windlass.cli.commands.render", "Print what a cluster would be given, for kubectl."
    ),
    "run": LazyCommand(
        "windlass.cli.commands.run", "Run jobs, or a command, on this machine, and exit as they do."
    ),
    "delete": LazyCommand(
        "windlass.cli.commands.delete", "Delete jobs of a cluster, with all that belongs to them."
    ),
    "describe": LazyCommand(
        "windlass.cli.commands.describe",
        "Say everything about a job, its pods and its events.",
    ),
    "list": LazyCommand("windlass.cli.commands.list", "Say which jobs a cluster has, and how they stand."),
    "resume": LazyCommand("windlass.cli.commands.resume", "Let jobs that were suspended run again."),
    "scale": LazyCommand(
        "windlass.cli.commands.scale", "Give the roles of a running job more tasks, or fewer."
    ),
    "schema": LazyCommand(
        "windlass.cli.commands.schema", "Print the JSON Schema of the job file, for editors."
    ),
    "status": LazyCommand("windlass.cli.commands.status", "Say how a job stands, and each of its tasks."),
    "stop": LazyCommand("windlass.cli.commands.stop", "End jobs for good."),
    "submit": LazyCommand("windlass.cli.commands.submit", "Submit jobs to a cluster."),
    "suspend": LazyCommand("windlass.cli.commands.suspend", "Take the pods of jobs away, and keep the jobs."),
    "upload": LazyCommand(
        "windlass.cli.commands.upload", "Put files onto a share, or into a volume of a cluster."
    ),
    "wait": LazyCommand("windlass.cli.commands.wait", "Wait until a job has completed, and exit as it did."),
    "template": LazyCommand(
        "windlass.cli.commands.template", "Render a Jinja template of Kubernetes objects."
    ),
    "tf-server": LazyCommand(
        "windlass.cli.commands.tf_server",
        "Be an idle TensorFlow server, for a notebook to drive.",
    ),
    "uninstall": LazyCommand("windlass.cli.commands.uninstall", "Take away what install has made."),
    "completion": LazyCommand(
        "windlass.cli.commands.completion", "Print the script that completes windlass in bash, zsh or fish."
    ),
    "events": LazyCommand("windlass.cli.commands.events", "Show what happened to a job and to its pods."),
    "exec": LazyCommand("windlass.cli.commands.exec", "Run a command beside a task, and exit as it does."),
    "logs": LazyCommand("windlass.cli.commands.logs", "Show what the tasks of a job write."),
    "hub": LazyCommand("windlass.cli.commands.hub", "Open the JupyterHub of a job."),
    "jupyter": LazyCommand("windlass.cli.commands.jupyter", "Open the JupyterLab of a job."),
    "tensorboard": LazyCommand("windlass.cli.commands.tensorboard", "Open the TensorBoard of a job."),
    "why": LazyCommand("windlass.cli.commands.why", "Say why a job failed, or what it waits for."),
}

SECTIONS = {
    "On this machine": ("run", "local"),
    "Job files": ("init", "lint", "plan", "render", "schema", "template"),
    "On a cluster": ("submit", "list", "wait", "scale", "stop", "suspend", "resume", "delete", "upload"),
    "Looking into jobs": ("status", "logs", "why", "events", "describe", "exec", "env"),
    "Beside jobs": ("tensorboard", "jupyter", "hub"),
    "For operators": ("install", "uninstall", "controller"),
    "In pods": ("barrier", "tf-server"),
    "In your shell": ("completion",),
}
"""What `windlass --help` puts together. Every command stands in one of them."""


class LazyGroup(click.Group):
    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> Any:
        """As click has it, but for what click leaves as a traceback."""
        errors.open_missing_streams()
        given = sys.argv[1:] if args is None else list(args)
        with errors.told(is_debugging=errors.DEBUG in given[:1]):
            return super().main(args, *rest, **more)

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        with errors.past_click():
            return super().make_context(*given, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with errors.past_click():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 — an override
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name].module), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Without importing the commands: somebody waits who has pressed Tab."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=command.summary)
            for name, command in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name].summary) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib  # a tenth of the time that `windlass --help` takes

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.format_message()} Did you mean {near[0]!r}?", ctx) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
@click.option(
    errors.DEBUG, "_debug", is_flag=True, expose_value=False, help="Show a traceback of what goes wrong."
)
def main() -> None:
    """Launch distributed training, on one laptop and on Kubernetes.

    \b
        windlass run --ps 1 --workers 2 -- python train.py   # on this machine
        windlass init train.py                               # write a job file
        windlass run job.yaml                                # on this machine
        windlass submit job.yaml                             # on a cluster
    """


if __name__ == "__main__":
    main(prog_name="windlass")
