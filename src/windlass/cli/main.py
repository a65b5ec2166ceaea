"""The `windlass` command. A subcommand is imported only when it is used.

Every error of a command is reported here, with one message and an exit code: see `exit_codes`.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass import __version__, startup
from windlass.cli import errors

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


SECTIONS = {
    "On this machine": {
        "run": "Run jobs or a command on this machine.",
        "local": "Manage a cluster on this machine, without Docker or root.",
    },
    "Job files": {
        "init": "Write a job file for a training script.",
        "lint": "Check job files and Frameworks, and fix errors.",
        "plan": "Simulate failures and show what a job would do.",
        "render": "Print the Kubernetes objects of jobs for kubectl.",
        "schema": "Print the JSON Schema of the job file for editors.",
        "convert": "Convert jobs of other systems to job files.",
        "template": "Render a Jinja template of Kubernetes objects.",
    },
    "On a cluster": {
        "submit": "Submit jobs to a cluster.",
        "list": "List jobs and their status.",
        "attach": "Show the live table of a submitted job.",
        "wait": "Wait for a job and return its exit code.",
        "scale": "Change the number of tasks of a job's roles.",
        "stop": "Stop jobs permanently.",
        "suspend": "Suspend jobs: delete their pods, keep the jobs.",
        "resume": "Resume suspended jobs.",
        "delete": "Delete jobs and the objects they own.",
        "upload": "Upload files to a share or a volume.",
    },
    "Inspect jobs": {
        "status": "Show the status of a job and its tasks.",
        "logs": "Show the logs of a job's tasks.",
        "why": "Explain why a job failed or is pending.",
        "report": "Write everything about a job to a file.",
        "ui": "Open the dashboard of a cluster in a browser.",
        "top": "Show the CPU and memory usage of tasks.",
        "events": "Show the events of a job and its pods.",
        "describe": "Show the details of a job, its pods and its events.",
        "exec": "Run a command in a task's container.",
        "cp": "Copy files to or from a task.",
        "env": "Print the discovery variables of a task for a shell.",
    },
    "Companions": {
        "tensorboard": "Open the TensorBoard of a job.",
        "jupyter": "Open the JupyterLab of a job.",
        "hub": "Open the JupyterHub of a job.",
    },
    "For operators": {
        "install": "Print or apply the manifests of the controller.",
        "uninstall": "Remove the controller from a cluster.",
        "controller": "Run the controller, in a cluster or outside of it.",
    },
    "In pods": {
        "barrier": "Wait until every task of this pod's job has an address.",
        "tf-server": "Run a TensorFlow server for a notebook.",
    },
    "Shell": {"completion": "Print the completion script for bash, zsh or fish."},
}
"""The commands with their summaries, by section of `windlass --help`."""

HINTS = {
    "ps": "windlass list, or windlass status NAME for the tasks of a job",
    "get": "windlass list, or windlass status NAME",
    "jobs": "windlass list",
    "cancel": "windlass stop NAME",
    "kill": "windlass stop NAME",
    "rm": "windlass delete NAME",
    "apply": "windlass submit FILE",
    "create": "windlass submit FILE",
    "start": "windlass run FILE on this machine, or windlass submit FILE on a cluster",
    "log": "windlass logs NAME",
}
"""Commands of other programs, and the corresponding commands of Windlass."""

COMMANDS = {name: summary for section in SECTIONS.values() for name, summary in section.items()}


class LazyGroup(click.Group):
    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run the command. Errors that click does not handle become messages, or tracebacks with --debug."""
        is_whole_process = args is None
        if is_whole_process:
            startup.postpone_garbage_collection()
        errors.open_missing_streams()
        arguments = sys.argv[1:] if args is None else list(args)
        with (
            errors.safe_terminal(),
            errors.reporting_errors(is_debugging=errors.DEBUG in arguments[:1]),
        ):
            return super().main(args, *rest, **options)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with errors.bypassing_click():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with errors.bypassing_click():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 — an override
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"windlass.cli.commands.{name}"), name)
        startup.postpone_loading_authorities()
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete commands without importing them, to be fast."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=summary)
            for name, summary in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if hint := HINTS.get(args[0]):
                raise click.UsageError(f"{error.format_message()} Use {hint}.", ctx) from error
            import difflib  # slow: it takes a tenth of the time of `windlass --help`

            similar = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if not similar:
                raise
            raise click.UsageError(f"{error.format_message()} Did you mean {similar[0]!r}?", ctx) from error


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
