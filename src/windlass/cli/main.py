"""The `windlass` command. A subcommand is imported only when it is run.

Every error ends here, as one message and an exit code: see `exit_codes`.
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
    """Module with a function of the same name as the command."""
    summary: str
    """Text in `windlass --help`."""


COMMANDS = {
    "barrier": LazyCommand(
        "windlass.cli.commands.barrier", "Wait until every task of this pod's job has an address."
    ),
    "controller": LazyCommand(
        "windlass.cli.commands.controller", "Run the controller, in a cluster or outside of it."
    ),
    "init": LazyCommand("windlass.cli.commands.init", "Write a job file for a training script."),
    "install": LazyCommand(
        "windlass.cli.commands.install", "Print or apply the manifests of the controller."
    ),
    "lint": LazyCommand("windlass.cli.commands.lint", "Check job files and Frameworks, and fix errors."),
    "local": LazyCommand(
        "windlass.cli.commands.local", "Manage a cluster on this machine, without Docker or root."
    ),
    "env": LazyCommand("windlass.cli.commands.env", "Print the discovery variables of a task for a shell."),
    "plan": LazyCommand("windlass.cli.commands.plan", "Simulate failures and show what a job would do."),
    "render": LazyCommand(
        "windlass.cli.commands.render", "Print the Kubernetes objects of jobs for kubectl."
    ),
    "run": LazyCommand("windlass.cli.commands.run", "Run jobs or a command on this machine."),
    "delete": LazyCommand("windlass.cli.commands.delete", "Delete jobs and the objects they own."),
    "describe": LazyCommand(
        "windlass.cli.commands.describe",
        "Show the details of a job, its pods and its events.",
    ),
    "list": LazyCommand("windlass.cli.commands.list", "List jobs and their status."),
    "resume": LazyCommand("windlass.cli.commands.resume", "Resume suspended jobs."),
    "scale": LazyCommand("windlass.cli.commands.scale", "Change the number of tasks of a running job."),
    "schema": LazyCommand(
        "windlass.cli.commands.schema", "Print the JSON Schema of the job file for editors."
    ),
    "status": LazyCommand("windlass.cli.commands.status", "Show the status of a job and its tasks."),
    "stop": LazyCommand("windlass.cli.commands.stop", "Stop jobs permanently."),
    "submit": LazyCommand("windlass.cli.commands.submit", "Submit jobs to a cluster."),
    "suspend": LazyCommand(
        "windlass.cli.commands.suspend", "Suspend jobs: delete their pods, keep the jobs."
    ),
    "upload": LazyCommand("windlass.cli.commands.upload", "Upload files to a share or a volume."),
    "wait": LazyCommand("windlass.cli.commands.wait", "Wait for a job and return its exit code."),
    "template": LazyCommand(
        "windlass.cli.commands.template", "Render a Jinja template of Kubernetes objects."
    ),
    "tf-server": LazyCommand(
        "windlass.cli.commands.tf_server",
        "Run an idle TensorFlow server for a notebook.",
    ),
    "uninstall": LazyCommand("windlass.cli.commands.uninstall", "Remove the controller from a cluster."),
    "completion": LazyCommand(
        "windlass.cli.commands.completion", "Print the completion script for bash, zsh or fish."
    ),
    "events": LazyCommand("windlass.cli.commands.events", "Show the events of a job and its pods."),
    "exec": LazyCommand("windlass.cli.commands.exec", "Run a command in a task's container."),
    "logs": LazyCommand("windlass.cli.commands.logs", "Show the logs of a job's tasks."),
    "hub": LazyCommand("windlass.cli.commands.hub", "Open the JupyterHub of a job."),
    "jupyter": LazyCommand("windlass.cli.commands.jupyter", "Open the JupyterLab of a job."),
    "tensorboard": LazyCommand("windlass.cli.commands.tensorboard", "Open the TensorBoard of a job."),
    "why": LazyCommand("windlass.cli.commands.why", "Explain why a job failed or is pending."),
}

SECTIONS = {
    "On this machine": ("run", "local"),
    "Job files": ("init", "lint", "plan", "render", "schema", "template"),
    "On a cluster": ("submit", "list", "wait", "scale", "stop", "suspend", "resume", "delete", "upload"),
    "Inspect jobs": ("status", "logs", "why", "events", "describe", "exec", "env"),
    "Companions": ("tensorboard", "jupyter", "hub"),
    "For operators": ("install", "uninstall", "controller"),
    "In pods": ("barrier", "tf-server"),
    "Shell": ("completion",),
}
"""The sections of `windlass --help`. Every command is in one of them."""


class LazyGroup(click.Group):
    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> Any:
        """Run the command. Errors that click would print as a traceback become messages."""
        errors.open_missing_streams()
        arguments = sys.argv[1:] if args is None else list(args)
        with errors.run_reporting_errors(is_debugging=errors.DEBUG in arguments[:1]):
            return super().main(args, *rest, **more)

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        with errors.bypassing_click():
            return super().make_context(*given, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with errors.bypassing_click():
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
        """Complete commands without importing them, to be fast."""
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
    errors.DEBUG, "_debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
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
