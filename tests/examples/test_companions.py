"""Companions of a job with the real programs: TensorBoard, JupyterLab, TensorFlow, and a browser.

Most tests share one cluster and one job, which trains all the time.
"""

import contextlib
import json
import re
import shutil
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import browsers
import pytest
from notebook_client import Executed, NotebookServer
from pods import commands
from pods.commands import Command, Done, Home, Local
from tls_proxy import tls_proxy
from web_attacks import OTHER_SITES, check_cookies, check_redirect

from conformance.waiting import wait_for
from examples import EXAMPLES, SECONDS, needs

JOB: Final = "digits"
SERVERS: Final = ("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1")
ALL_CHARACTERS: Final = " \"p'ä ☃ $HOME `id` %20&+=;#\\ \t 🗝"
STARTER: Final = "notebooks/start.ipynb"
COOKIES: Final = {"_xsrf", "username"}
LABEL: Final = "labelSelector=windlass.dev%2Fjob%3Ddigits"
COLLECTIONS: Final = (
    "/api/v1/{}/pods",
    "/api/v1/{}/services",
    "/api/v1/{}/secrets",
    "/api/v1/{}/configmaps",
    "/api/v1/{}/serviceaccounts",
    "/apis/apps/v1/{}/deployments",
    "/apis/rbac.authorization.k8s.io/v1/{}/roles",
    "/apis/rbac.authorization.k8s.io/v1/{}/rolebindings",
    "/apis/frameworkcontroller.microsoft.com/v1/{}/frameworks",
)


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 — of this machine
        return json.loads(answer.read())


def url_in(command: Command) -> str:
    """Return a printed URL of this machine."""
    found = re.compile(r"http://127\.0\.0\.1:\d+/")

    def look() -> "re.Match[str] | None":
        assert command.process.poll() is None, command.done()
        return found.search(command.output)

    return wait_for("a URL", look, SECONDS)[0]


def password_in(said: str) -> str:
    found = re.search(r"generated password \(shown once\): (\S+)", said)
    assert found is not None, said
    return found[1]


class Digits:
    """The job of digits-ps/companions.yaml on a cluster of `windlass local`. It trains longer than any test, at low
    priority."""

    def __init__(self, home: Home, local: Local, output: Path, notebooks: Path) -> None:
        self.home = home
        self.local = local
        self.output = output
        self._where = ("--kubeconfig", local.status()["kubeconfig"])
        self.file = home.file(job_file(output, notebooks))
        self.password = password_in(self.windlass("submit", str(self.file)).expect(0).stdout)
        self.doors: dict[str, Command] = {}
        """Running commands that forward to companions."""

    def windlass(self, command: str, *arguments: str) -> Done:
        return self.home.windlass(command, *self._where, *arguments)

    def door(self, companion: str) -> str:
        """Return the URL of `windlass tensorboard digits`, or jupyter."""
        if companion not in self.doors:
            self.doors[companion] = self.home.begin(companion, *self._where, JOB, "--port", "0")
        return url_in(self.doors[companion])

    @contextlib.contextmanager
    def jupyter(self) -> Iterator[NotebookServer]:
        with NotebookServer(self.door("jupyter")) as server:
            yield server

    def state(self) -> str:
        namespace = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default"
        answer = self.local.client.get(f"{namespace}/frameworks/{JOB}").expect(200)
        return str(answer.body["status"]["state"])

    def left(self) -> list[str]:
        """Return its objects in the cluster."""
        paths = (each.format("namespaces/default") for each in COLLECTIONS)
        answers = (self.local.client.get(f"{path}?{LABEL}").expect(200) for path in paths)
        return [each["metadata"]["name"] for answer in answers for each in answer.body["items"]]


def job_file(output: Path, notebooks: Path) -> str:
    text = (EXAMPLES / "digits-ps" / "companions.yaml").read_text()
    for old, new in (
        ("code: .", f"code: {EXAMPLES / 'digits-ps'}"),
        ("command: python3 train.py --steps 2000", "command: nice -n 19 python3 train.py --steps 10000000"),
        ("hostPath: /tmp/digits,", f"hostPath: {output},"),
        ("hostPath: /tmp/digits-notebooks,", f"hostPath: {notebooks},"),
    ):
        assert old in text, f"{old!r} is not in it"
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="windlass-companions-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def digits() -> Iterator[Digits]:
    needs("tensorflow", "sklearn", "tensorboard", "jupyterlab")
    with (
        folder() as output,
        folder() as notebooks,
        commands.home(commands.best()) as home,
        commands.local(home) as local,
    ):
        yield Digits(home, local, output, notebooks)


@pytest.fixture
def page() -> Iterator[browsers.Page]:
    needs(browsers.PROGRAM)
    with browsers.opened() as opened:
        yield opened


# TensorBoard


def run_of(digits: Digits) -> str:
    """Return the name of the job's run in TensorBoard, once it has data."""
    url = f"{digits.door('tensorboard')}data/plugin/scalars/tags"
    tags = wait_for("a scalar", lambda: get(url), SECONDS)
    ((run, found),) = tags.items()
    assert list(found) == ["loss"]
    return str(run)


def test_tensorboard_shows_the_scalar_of_the_job(digits: Digits) -> None:
    run = run_of(digits)
    query = urllib.parse.urlencode({"tag": "loss", "run": run})

    def points() -> list[tuple[float, int, float]]:
        found: list[tuple[float, int, float]] = get(
            f"{digits.door('tensorboard')}data/plugin/scalars/scalars?{query}"
        )
        return found

    first = points()
    assert all(0 <= loss < 10 for _, _, loss in first)
    wait_for("it to go on", lambda: points()[-1][1] > first[-1][1], SECONDS)


def test_browser_shows_the_run(digits: Digits, page: browsers.Page) -> None:
    run = run_of(digits)
    page.open(digits.door("tensorboard"))
    page.until_shown(run)
    page.until_shown("loss")
    # The axes of a chart without data end at 1.
    steps = "[...document.querySelectorAll('scalar-card line-chart-axis[axis=x] text')]"
    page.until("steps below the chart", f"{steps}.some(each => parseFloat(each.textContent) > 1)")


def test_tensorboard_without_data_reports_that(digits: Digits) -> None:
    """Without the job; later it reports that there is data."""
    events = next((digits.output / run_of(digits)).glob("events.out.tfevents.*"))
    with folder() as output, folder() as notebooks, commands.home(commands.best()) as home:
        file = home.file(job_file(output, notebooks))
        command = home.begin("tensorboard", "--port", "0", file)
        url = url_in(command)
        command.says("/output has no runs yet")
        shutil.copy(events, output)
        command.says("found runs")
        assert get(f"{url}data/plugin/scalars/tags")
        traces = home.traces()
        command.press_ctrl_c()
        command.done().expect(0)
        traces.wait_until_gone()


# JupyterLab


def test_jupyter_requires_the_password(digits: Digits) -> None:
    with digits.jupyter() as server:
        assert server.get("/api/contents").code == 403
        assert not server.log_in(f"{digits.password}x")
        assert server.log_in(digits.password)


def test_jupyter_rejects_attacks_of_other_sites(digits: Digits) -> None:
    with digits.jupyter() as server:
        assert server.send_form("POST", "/login", {"password": digits.password}).code == 403, (
            "without XSRF token"
        )
        assert server.log_in(digits.password)
        check_cookies(server.set_cookies, COOKIES)
        kernel = server.ask("POST", "/api/kernels", {}).json["id"]
        assert server.send_form("POST", "/api/kernels").code == 403, "without XSRF token"
        channels = f"/api/kernels/{kernel}/channels"
        assert server.websocket_status(channels, server.url) == 101
        assert server.websocket_status(channels, "http://evil.example") == 403
        server.ask("DELETE", f"/api/kernels/{kernel}")
    for target in OTHER_SITES:
        with digits.jupyter() as server:
            check_redirect(server.try_to_log_in(digits.password, target), server.url)


def test_all_cookies_of_jupyter_are_protected_behind_tls(digits: Digits, tmp_path: Path) -> None:
    with tls_proxy(tmp_path) as proxy, digits.jupyter() as direct:
        proxy.target = direct.url
        with NotebookServer(proxy.url) as server:
            assert server.log_in(digits.password)
            # Without a hub, Jupyter has no setting for the XSRF token that depends on the request.
            login = [each for each in server.set_cookies if not each.startswith("_xsrf=")]
            check_cookies(login, COOKIES - {"_xsrf"}, is_secure=True)


def test_jupyter_shows_the_volumes_of_the_job(digits: Digits) -> None:
    with digits.jupyter() as server:
        assert server.log_in(digits.password)
        assert set(server.names()) >= {"notebooks", "output"}
        assert "start.ipynb" in server.names("notebooks")
        run = run_of(digits)
        assert any(name.startswith("events.out.tfevents") for name in server.names(f"output/{run}"))
        assert server.get(f"/files/{STARTER}").json["cells"], "files can be downloaded"


def executed(server: NotebookServer) -> list[Executed]:
    """Return the cells of the starter notebook with a longer timeout for the servers."""
    cells = server.cells(STARTER)
    assert sum("SECONDS = 20 " in each for each in cells) == 1
    patient = [each.replace("SECONDS = 20 ", f"SECONDS = {SECONDS:.0f} ") for each in cells]
    done = server.execute(*patient, path=STARTER)
    assert [each.error for each in done] == [""] * len(cells)
    return done


def check_steps(cells: list[Executed]) -> None:
    """Check that every server of the job has computed something."""
    said = "".join(each.output for each in cells)
    for server in SERVERS:
        assert re.search(rf"{server} at \S+: \[1 2\]·\[3 4\] = 11\n", said), said
    assert "4 servers added 4 each: 16, stored on /job:ps/task:0" in said


def test_starter_notebook_runs_on_a_training_job(digits: Digits) -> None:
    with digits.jupyter() as server:
        assert server.log_in(digits.password)
        cells = executed(server)
    check_steps(cells)
    assert re.search(r"^worker-0: ", cells[-1].output, re.MULTILINE), "the last of them reads logs"
    assert digits.state() == "AttemptRunning"


def test_browser_opens_the_starter_notebook(digits: Digits, page: browsers.Page) -> None:
    page.open(digits.door("jupyter"))
    page.type("#password_input", digits.password)
    page.click("#login_submit")
    page.until_shown("start.ipynb")
    page.until_shown("The job digits")


# Deletion


def test_companions_outlive_forwarding_and_are_deleted_with_the_job(digits: Digits) -> None:
    companions = ("tensorboard", "jupyter")
    for companion in companions:
        digits.door(companion)
        digits.doors[companion].press_ctrl_c()
        digits.doors[companion].done().expect(0)
    status = digits.windlass("status", JOB).expect(0).stdout
    for companion in companions:
        assert re.search(rf"^\s*{companion}\s+Running\s+http://\S+", status, re.MULTILINE), status
    digits.windlass("delete", JOB).expect(0)
    wait_for("nothing to be left", lambda: not digits.left())
    assert "no job" in digits.windlass("jupyter", JOB).stderr


# `windlass run`


def test_notebook_uses_idle_servers() -> None:
    """On the host network, where servers differ by port."""
    needs("tensorflow", "jupyterlab")
    with commands.home(commands.best()) as home:
        (home.folder / "password").write_text(f"{ALL_CHARACTERS}\n")
        text = (EXAMPLES / "clustered-tensorflow" / "notebook.yaml").read_text()
        assert "jupyter: {}" in text
        file = home.file(text.replace("jupyter: {}", "jupyter: {passwordFrom: {file: password}}"))
        run = home.begin("run", "--network", "shared", "--output", "json", file)
        with NotebookServer(url_in(run)) as server:
            assert not server.log_in(ALL_CHARACTERS[:-1])
            assert server.log_in(ALL_CHARACTERS)
            check_steps(executed(server))
        traces = home.traces()
        run.press_ctrl_c()
        run.process.wait(SECONDS)
        traces.wait_until_gone()
