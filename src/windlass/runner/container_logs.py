"""Read the output of containers line by line, from the API server or from the log files of the run's cluster.

Unlike `windlass.client.logs`, this module does not reconnect: the run and its cluster are on the same machine.
"""

from collections.abc import AsyncIterator
from pathlib import Path

from windlass.client.logs.lines import Piece, Splitter
from windlass.client.pods import Run
from windlass.kubeapi import requests
from windlass.kubeapi.transport import Transport
from windlass.localcluster.cluster import PODS as PODS_FOLDER
from windlass.localcluster.kubelet import log_reader
from windlass.localcluster.kubelet.pods import directory
from windlass.localcluster.kubelet.pods.directory import PodFolder
from windlass.localcluster.sandbox import log_format

LONGEST_LINE = 64 * 1024
"""Maximum bytes of a line. Longer ones are split."""


async def follow(transport: Transport, namespace: str, pod: str, container: str) -> AsyncIterator[str]:
    """Yield lines until the container ends. Raises ApiError."""
    request = requests.log(namespace, pod, container=container, follow="true")
    lines = Splitter(LONGEST_LINE)
    async with transport.stream(request) as chunks:
        async for chunk in chunks:
            for piece in lines.feed(chunk):
                yield _text(piece)
    for piece in lines.end():
        yield _text(piece)


def kept(data: Path, run: Run) -> list[str]:
    """Return the output of an ended container from its log file."""
    lines = Splitter(LONGEST_LINE)
    text = log_reader.all_text(
        folder(data, run.pod).logs(run.container), log_format.file_name(run.restart_count)
    )
    return [_text(piece) for piece in (*lines.feed(text), *lines.end())]


def folder(data: Path, uid: str) -> PodFolder:
    """Return the folder with the files of a pod."""
    return directory.of(data / PODS_FOLDER, uid)


def _text(piece: Piece) -> str:
    return piece.data.decode("utf-8", "replace")
