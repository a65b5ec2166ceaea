"""The command `windlass upload`."""

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, json_output, parameters
from windlass.cli.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from windlass.cli.terminal.progress_bar import ProgressBar
    from windlass.client.upload.shares import Share
    from windlass.client.upload.transfer import ProgressCallbacks, Uploaded

SHARE = "WINDLASS_SHARE"
"""Environment variable with the default share."""


@click.command()
@click.argument("project_or_path", metavar="PROJECT|PATH")
@click.argument("target", metavar="[SHARE]", required=False)
@click.option(
    "--code",
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
    project_or_path: str,
    target: str | None,
    code: tuple[Path, ...],
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
    from windlass.client.upload import items as upload_items
    from windlass.client.upload import pod_target, shares, transfer

    is_project = bool(code or data)
    share_text = _share_argument(target, share, is_project=is_project)
    name_error = shares.project_name_error(project_or_path) if is_project else None
    if name_error:
        raise click.UsageError(name_error)
    try:
        parsed_share = shares.parse(share_text)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    sources = (
        transfer.project_sources(project_or_path, code, data)
        if is_project
        else {"": (Path(project_or_path),)}
    )
    items = upload_items.gather(sources)
    bar = None if quiet else _progress_bar()
    callbacks = _progress_callbacks(bar)
    try:
        if isinstance(parsed_share, shares.LocalShare):
            done = asyncio.run(transfer.to_folder(parsed_share, items, callbacks))
        else:
            done = cluster_options.run(
                cluster,
                pod_target.upload,
                parsed_share,
                items,
                job=project_or_path if is_project else "",
                image=image,
                timeout=timeout,
                callbacks=callbacks,
            )
    finally:
        if bar is not None:
            bar.end()
    click.echo(json_output.encode(done).decode() if output == "json" else summary(done, parsed_share))


def summary(done: "Uploaded", share: "Share") -> str:
    from windlass.client.submit import code_archive

    files = "1 file" if done.files == 1 else f"{done.files} files"
    counts = ((done.sent, "sent"), (done.resumed, "resumed"), (done.skipped, "unchanged"))
    listed = ", ".join(f"{count} {word}" for count, word in counts if count)
    details = f": {listed}, {code_archive.format_size(done.bytes)} transferred" if listed else ""
    return f"uploaded {files} ({code_archive.format_size(done.size)}) to {share}{details}"


def _share_argument(target: str | None, share: str | None, *, is_project: bool) -> str:
    """Return the share from the argument, the option or the environment. Raises click.UsageError."""
    from windlass.client.upload import shares

    formats = "".join(f"\n  {each}" for each in shares.FORMS)
    if is_project and target is not None:
        raise click.UsageError(
            f"found {target!r} with --code or --data: give the share of a project with --share, one of:{formats}"
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
        raise click.UsageError(f"--share is missing, and {SHARE} is not set. Expected one of:{formats}")
    return found


def _progress_bar() -> "ProgressBar":
    from windlass.cli.terminal.progress_bar import ProgressBar

    columns = None
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        columns = 80
        with contextlib.suppress(OSError):
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or columns

    def write(text: str) -> None:
        # The text stream would remove the sequences that redraw the bar.
        sys.stderr.buffer.write(text.encode(sys.stderr.encoding, "backslashreplace"))
        sys.stderr.buffer.flush()

    return ProgressBar(write, time.monotonic, columns)


def _progress_callbacks(bar: "ProgressBar | None") -> "ProgressCallbacks":
    from windlass.cli.terminal import text as terminal_text
    from windlass.client.upload.transfer import ProgressCallbacks

    if bar is None:
        return ProgressCallbacks()
    return ProgressCallbacks(
        on_compared=bar.compared,
        on_planned=bar.begin,
        on_sent=bar.sent,
        on_warning=lambda message: bar.note(f"windlass: {terminal_text.printable(message)}"),
    )
