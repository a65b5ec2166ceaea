"""The output of containers, line by line as it comes."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from windlass.cli.runs.report import Container, Pod
from windlass.kubeapi import requests
from windlass.kubeapi.resources import PODS
from windlass.kubeapi.transport import Transport
from windlass.localcluster.cluster import PODS as PODS_FOLDER
from windlass.localcluster.kubelet import log_reader, pod_folder
from windlass.localcluster.kubelet.pod_folder import PodFolder
from windlass.localcluster.podlife import logs

LONGEST_LINE = 64 * 1024
"""Bytes; what is longer is told in pieces."""

Run = tuple[str, str, int]
"""One run of a container: the pod's UID, the container's name, how often it was restarted before."""


def runs(pod: Pod) -> list[tuple[Run, Container]]:
    """Those that have written something, or may have."""
    return [
        ((pod.metadata.uid, container.name, container.restart_count), container)
        for container in pod.containers
        if container.has_begun
    ]


class Lines:
    """Pieces of any size → whole lines, empty ones included."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        while len(self._rest) > LONGEST_LINE:
            lines.append(self._rest[:LONGEST_LINE])
            self._rest = self._rest[LONGEST_LINE:]
        return [_text(line) for line in lines]

    def end(self) -> list[str]:
        """What comes after the last line's end."""
        return [_text(self._rest)] if self._rest else []


async def follow(transport: Transport, namespace: str, pod: str, container: str) -> AsyncIterator[str]:
    """Until the container ends. Raises ApiError."""
    request = msgspec.structs.replace(
        requests.get(PODS, namespace, pod, "log").with_accept("*/*"),
        query=(("container", container), ("follow", "true")),
    )
    lines = Lines()
    async with transport.stream(request) as chunks:
        async for chunk in chunks:
            for line in lines.feed(chunk):
                yield line
    for line in lines.end():
        yield line


def kept(data: Path, uid: str, container: str, restart_count: int) -> list[str]:
    """The output of a run that has ended, from where the cluster keeps it."""
    lines = Lines()
    text = log_reader.all_text(folder(data, uid).logs(container), logs.file_name(restart_count))
    return [*lines.feed(text), *lines.end()]


def folder(data: Path, uid: str) -> PodFolder:
    """Where the cluster keeps what belongs to a pod."""
    return pod_folder.of(data / PODS_FOLDER, uid)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
