"""An API server in a process or a thread, and a minimal client."""

import http.client
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml
from operated import loop_thread

from windlass.localcluster.apiserver import credentials
from windlass.localcluster.server import ApiServer


class Answer(NamedTuple):
    code: int
    body: Any
    headers: dict[str, str]


class RunningServer:
    def __init__(self, data: Path, url: str) -> None:
        self.data = data
        self.url = url
        self.port = urlsplit(url).port or 0
        self.token = (data / "token").read_text()

    def connect(self, timeout: float = 60) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.data / "server.crt"))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=timeout)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        every = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, **(headers or {})}
        connection = self.connect()
        try:
            connection.request(method, path, sent, {name: value for name, value in every.items() if value})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        parsed = json.loads(content) if is_json else content
        return Answer(response.status, parsed, dict(response.headers))

    def create(self, name: str, **data: str) -> Answer:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        return self.ask("POST", "/api/v1/namespaces/default/configmaps", body)

    def names(self) -> list[str]:
        answer = self.ask("GET", "/api/v1/namespaces/default/configmaps")
        return [item["metadata"]["name"] for item in answer.body["items"]]


class ServerProcess(RunningServer):
    def __init__(self, data: Path, url: str, process: subprocess.Popen[str]) -> None:
        super().__init__(data, url)
        self.process = process


@contextmanager
def serving_in_thread(data: Path) -> Iterator[RunningServer]:
    """Start a server in this process, which is a hundred times cheaper, for tests that do not kill it."""
    data.mkdir(exist_ok=True)
    with loop_thread.running() as stage:
        server = stage.wait(_start(data))
        try:
            credentials.write_kubeconfig(data / "kubeconfig", server.url, server.credentials)
            yield RunningServer(data, server.url)
        finally:
            stage.wait(server.stop())


async def _start(data: Path) -> ApiServer:
    server = ApiServer(data)
    await server.start()
    return server


@contextmanager
def serving(data: Path, *arguments: str, **options: Any) -> Iterator[ServerProcess]:
    """Start a server with `python -m windlass.localcluster`."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "windlass.localcluster", "--data", str(data), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        if "is ready" not in process.stdout.readline():
            raise AssertionError(process.stderr.read())
        config = yaml.safe_load((data / "kubeconfig").read_text())
        yield ServerProcess(data, config["clusters"][0]["cluster"]["server"], process)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
        process.stderr.close()
