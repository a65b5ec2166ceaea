"""The command `windlass schema`."""

import click

from windlass.jobfile import schema as jobfile_schema


@click.command()
def schema() -> None:
    """Print the JSON Schema of the job file.

    Save it next to your job files and refer to it in the first line of each:

    \b
        windlass schema > job.schema.json
        # yaml-language-server: $schema=job.schema.json
    """
    click.echo(jobfile_schema.read_published(), nl=False)
