"""The command `windlass upload`."""

import asyncio
import os
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import cluster_options, parameters
from windlass.cli.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from windlass.cli.terminal.progress_bar import ProgressBar
    from windlass.client.connection import Connection
    from windlass.client.upload.items import UploadItems
    from windlass.client.upload.shares import Share
    from windlass.client.upload.transfer import Uploaded, Watch

SHARE = "WINDLASS_SHARE"
"""Environment variable with the default share."""


class UploadRequest(msgspec.Struct, frozen=True):
    """The parsed arguments."""

    share: "Share"
    items: "UploadItems"
    label: str
    """Job label of the loader pod."""


class _LoaderOptions(msgspec.Struct, frozen=True):
    image: str
    timeout: float


@click.command()
@click.argument("what", metavar="PROJECT|PATH")
@click.argument("target", metavar="[SHARE]", required=False)
@click.option(
    "--code",
    "sent_code",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File or directory to upload to src/PROJECT. Repeatable.",
)
@click.option(
    "--data",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File or directory to upload to data/PROJECT. Repeatable.",
)
@click.option(
    "--share",
    metavar="SHARE",
    help=f"Target: a local /PATH, nfs://SERVER/PATH or pvc://CLAIM[/FOLDER] (default: ${SHARE}).",
)
@click.option(
    "--image",
    default="busybox:stable",
    show_default=True,
    metavar="IMAGE",
    help="Image of the loader pod, with sh, tar, head, wc and sha256sum.",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=parameters.positive_duration,
    default="5m",
    show_default=True,
    help="How long to wait for the mount, and for a stalled transfer, e.g. 90s or 10m.",
)
@click.option("--quiet", "-q", is_flag=True, help="Do not show the progress.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the summary.",
)
@cluster_options.options
def upload(
    what: str,
    target: str | None,
    sent_code: tuple[Path, ...],
    data: tuple[Path, ...],
    share: str | None,
    image: str,
    timeout: float,
    quiet: bool,
    output: str,
    cluster: ClusterOptions,
) -> None:
    """Upload the files of a project to a share: code to src/PROJECT, data to data/PROJECT. Or upload PATH to SHARE.

    \b
        windlass upload digits --code train.py --data mnist.npz --share nfs://nfs.example/exports
        windlass upload digits --code ./src --data ./mnist --share /mnt/share
        windlass upload ./data pvc://my-data
        windlass upload weights.bin pvc://my-data/models

    Files are written directly to a local /PATH and through a loader pod to other shares. Files with the same checksum
    are skipped. To continue an interrupted upload, run the same command again. Other files on the share are not
    changed. CLAIM[:FOLDER] is short for pvc://CLAIM[/FOLDER].
    """
    written = _share_argument(target, share, is_project=bool(sent_code or data))
    request = _parse_request(what, written, sent_code, data)
    bar = None if quiet else _progress_bar()
    try:
        done = _upload(request, _LoaderOptions(image, timeout), _progress_callbacks(bar), cluster)
    finally:
        if bar is not None:
            bar.end()
    click.echo(msgspec.json.encode(done).decode() if output == "json" else summary(done, request.share))


def summary(done: "Uploaded", share: "Share") -> str:
    from windlass.client.submit import code_archive

    files = "1 file" if done.files == 1 else f"{done.files} files"
    counts = ((done.sent, "sent"), (done.resumed, "resumed"), (done.skipped, "unchanged"))
    listed = ", ".join(f"{count} {word}" for count, word in counts if count)
    details = f": {listed}, {code_archive.shown_size(done.bytes)} transferred" if listed else ""
    return f"uploaded {files} ({code_archive.shown_size(done.size)}) to {share}{details}"


# Arguments


def _share_argument(target: str | None, share: str | None, *, is_project: bool) -> str:
    """Raises click.UsageError."""
    from windlass.client.upload import shares

    forms = "".join(f"\n  {form}" for form in shares.FORMS)
    if is_project and target is not None:
        raise click.UsageError(
            f"found {target!r} with --code or --data: give the share of a project with --share, one of:{forms}"
        )
    if not is_project and target is None:
        raise click.UsageError(
            "expected --code or --data with the files of the project, or a share after the path: "
            "`windlass upload PROJECT --code PATH --data PATH --share SHARE` or `windlass upload PATH SHARE`"
        )
    if not is_project and share is not None:
        raise click.UsageError(f"found --share and the share {target!r}: expected one of them")
    found = target or share or os.environ.get(SHARE, "")
    if not found:
        raise click.UsageError(f"--share is missing, and {SHARE} is not set. Expected one of:{forms}")
    return found


def _parse_request(
    what: str, written: str, sent_code: tuple[Path, ...], data: tuple[Path, ...]
) -> UploadRequest:
    """Parse the arguments and check all files. Raises click.UsageError and CommandError."""
    from windlass.client import errors
    from windlass.client.upload import items as upload_items
    from windlass.client.upload import shares, transfer

    is_project = bool(sent_code or data)
    error_message = shares.project_name_error(what) if is_project else None
    if error_message:
        raise click.UsageError(error_message)
    try:
        share = shares.parse(written)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    sources = transfer.project_sources(what, sent_code, data) if is_project else {"": (Path(what),)}
    try:
        return UploadRequest(share, upload_items.gather(sources), what if is_project else "")
    except errors.ClientError as error:
        raise cluster_options.command_error(error) from error


# Upload


def _upload(
    request: UploadRequest, loader: _LoaderOptions, watch: "Watch", cluster: ClusterOptions
) -> "Uploaded":
    from windlass.client import errors
    from windlass.client.upload import transfer
    from windlass.client.upload.shares import OnDisk

    share = request.share
    if isinstance(share, OnDisk):
        try:
            return asyncio.run(transfer.to_folder(share, request.items, watch))
        except errors.ClientError as error:
            raise cluster_options.command_error(error) from error

    async def use(connection: "Connection") -> "Uploaded":
        from windlass.client.upload import pod_target

        return await pod_target.upload(
            connection,
            share,
            request.items,
            name=f"upload-{secrets.token_hex(4)}",
            job=request.label,
            image=loader.image,
            timeout=loader.timeout,
            watch=watch,
        )

    return cluster_options.run(cluster, use)


def _progress_bar() -> "ProgressBar":
    from windlass.cli.terminal.progress_bar import ProgressBar

    columns = None
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
        except OSError:
            columns = 80

    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    return ProgressBar(write, time.monotonic, columns or (80 if columns == 0 else None))


def _progress_callbacks(bar: "ProgressBar | None") -> "Watch":
    from windlass.cli.terminal import text as terminal_text
    from windlass.client.upload.transfer import Watch

    if bar is None:
        return Watch()
    return Watch(
        compared=bar.compared,
        planned=lambda plan: bar.begin(plan.left),
        moved=bar.moved,
        noted=lambda words: bar.note(f"windlass: {terminal_text.printable(words)}"),
    )
