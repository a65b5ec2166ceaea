"""`windlass ui` as a process: its link, its session, its end, and rejected options."""

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar

import msgspec
import pytest
from click.testing import CliRunner
from in_process_cluster import ClusterNamespace
from operated import jobs

from windlass.cli.main import main
from windlass.web import page as dashboard_page


@pytest.fixture
def process(place: ClusterNamespace) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "windlass.cli.main", "ui", *place.options, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:  # noqa: S603
        try:
            yield running
        finally:
            running.kill()


def test_link_opens_a_session_until_ctrl_c(process: "subprocess.Popen[str]", place: ClusterNamespace) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER)))
    assert process.stdout is not None
    link = process.stdout.readline().strip()
    address, _, code = link.partition("/login?code=")
    assert address.startswith("http://127.0.0.1:")
    assert len(code) > 30
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with opener.open(link) as page:
        assert page.url == f"{address}/"
    with opener.open(f"{address}/api/v1/jobs?namespace={place.name}") as answer:
        assert [row["name"] for row in msgspec.json.decode(answer.read())["items"]] == ["digits"]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(link)  # noqa: S310 — its scheme is http
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "")
    notes = ["the dashboard is running until Ctrl-C; the link works once"]
    notes += [] if dashboard_page.is_built() else [dashboard_page.NOT_BUILT]
    assert errors == "".join(f"windlass: {note}\n" for note in notes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "0.0.0.0:80"], "--listen requires --token-login or --token-header"),
        (["--token-login", "--token-header", "X"], "--token-login and --token-header are mutually exclusive"),
        (["--token-login", "--listen", "x"], "'x' is not host:port"),
        (["--token-login", "--listen", ":1", "--port", "2"], "--listen and --port are mutually exclusive"),
    ],
)
def test_contradicting_options_are_rejected(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["ui", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_port_in_use_is_reported(place: ClusterNamespace, unused_port_holder: int) -> None:
    result = CliRunner().invoke(main, ["ui", *place.options, "--port", str(unused_port_holder)])
    assert result.exit_code == 1
    assert (
        result.stderr
        == f"windlass: cannot listen on 127.0.0.1:{unused_port_holder}: Address already in use\n"
    )


@pytest.fixture
def unused_port_holder() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]
