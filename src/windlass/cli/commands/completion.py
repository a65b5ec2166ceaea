"""The command `windlass completion`."""

import click
from click import shell_completion

from windlass.cli.errors import CommandError

VARIABLE = "_WINDLASS_COMPLETE"
"""Environment variable with which a shell requests completions."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell script that completes commands, options, and the names of jobs and tasks.

    \b
        echo 'eval "$(windlass completion bash)"' >> ~/.bashrc
        echo 'eval "$(windlass completion zsh)"' >> ~/.zshrc
        windlass completion fish > ~/.config/fish/completions/windlass.fish
    """
    from windlass.cli.main import main

    completion_class = shell_completion.get_completion_class(shell)
    if completion_class is None:
        raise CommandError(f"cannot create a completion script for {shell}")
    click.echo(completion_class(main, {}, "windlass", VARIABLE).source())
