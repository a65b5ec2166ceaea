"""`windlass upload`: see `windlass.client.uploading`."""

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster, parameters
from windlass.cli.cluster import Where

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.uploading import Uploaded


@click.command()
@click.argument("source", metavar="PATH", type=click.Path(exists=True, path_type=Path))
@click.argument("target", metavar="CLAIM[:FOLDER]")
@click.option(
    "--image",
    default="busybox:stable",
    show_default=True,
    metavar="IMAGE",
    help="Any that has sh and tar, where the cluster cannot pull this one.",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=parameters.some_time,
    default="5m",
    show_default=True,
    help="For the volume to be there, such as 90s or 10m.",
)
@cluster.options
def upload(source: Path, target: str, image: str, timeout: float, where: Where) -> None:
    """Bring the files of a folder, or one file, into a volume of the cluster: that of the PersistentVolumeClaim CLAIM.

    A small job mounts the volume while the files go there. Files of the same name are replaced, others stay.

    \b
        windlass upload ./data my-data
        windlass upload weights.bin my-data:models/digits

    A job file mounts the volume with `volumes: {data: {pvc: my-data, at: /data}}`.
    """
    # What is heavy is imported here: `windlass --help` must not pay for it.
    from windlass.client import code, uploading
    from windlass.client.uploading import Target

    try:
        wanted = Target.parse(target)
    except ValueError as error:
        raise click.UsageError(str(error)) from error

    def say(data: bytes) -> None:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()

    async def use(connection: "Connection") -> "Uploaded":
        name = f"upload-{secrets.token_hex(4)}"
        return await uploading.upload(
            connection, source, wanted, name=name, image=image, timeout=timeout, say=say
        )

    done = cluster.run(where, use)
    files = "1 file" if done.files == 1 else f"{done.files} files"
    click.echo(f"{files}, {code.shown_size(done.size)}, are in {wanted}")
