"""`windlass local` with a daemon and running pods: up, status, down and reset."""

import json
import re
import shlex
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import commands, levels, machine
from pods.commands import GROUP, Home, Local, framework, role
from pods.levels import Level
from pods.place import Place, Pod
from pods.specs import FOREVER, STUBBORN, config_map

from conformance.client import Answer
from conformance.waiting import wait_for

FRAMEWORKS = f"/apis/{GROUP}/namespaces/default/frameworks"


@pytest.fixture
def local(home: Home) -> Iterator[Local]:
    with commands.local(home) as made:
        yield made


@pytest.fixture
def anyone(level: Level) -> Iterator[Local]:
    with commands.home(level) as home, commands.local(home) as made:
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[Local]:
    """A cluster for tests that do not damage it."""
    with commands.home(commands.best()) as home, commands.local(home, "--nodes", "2") as made:
        yield made


# A running cluster


def test_up_prints_a_kubeconfig_that_works(shared: Local) -> None:
    done = shared.tell("up").expect(0)
    assert done.lines == [f"export KUBECONFIG={shared.data}/kubeconfig"]
    assert stat.S_IMODE((shared.data / "kubeconfig").stat().st_mode) == 0o600
    place = shared.new_place()
    assert place.start("echo hello").output() == ["hello"]


def test_up_twice_changes_nothing(shared: Local) -> None:
    before = shared.status()
    done = shared.tell("up", "--nodes", "3").expect(0)
    assert f"the cluster is already running: {before['url']}, 2 nodes" in done.stderr
    assert "the cluster was started with --nodes 2" in done.stderr
    after = shared.status()
    assert (after["pid"], after["nodes"]) == (before["pid"], before["nodes"])


def test_status_shows_the_cluster(shared: Local) -> None:
    pod = shared.new_place().start(FOREVER)
    pod.running()
    found = shared.status()
    access = shared.client.access
    assert (found["running"], found["controller"], found["trouble"]) == (True, True, "")
    assert (found["url"], len(found["nodes"])) == (f"https://{access.host}:{access.port}", 2)
    assert (found["dataDir"], found["kubeconfig"]) == (str(shared.data), f"{shared.data}/kubeconfig")
    assert found["pods"]["Running"] == 1
    said = shared.tell("status").expect(0).stdout
    assert said.startswith(f"running, process {found['pid']}\n")
    assert all(words in said for words in (*found["nodes"], found["url"], "1 Running"))


def created(local: Local, body: object) -> Answer:
    """Wait until the controller has created the CRD."""

    def look() -> Answer | None:
        answer = local.client.post(FRAMEWORKS, body)
        return None if answer.code == 404 else answer

    return wait_for("Frameworks to be known", look).expect(201)


def test_framework_completes(shared: Local) -> None:
    run = 'test "$FC_TASK_INDEX" = 0 || exit 3'
    created(shared, framework(role(shared.home.container(run), tasks=2), name="failing"))

    def look() -> Answer | None:
        answer = shared.client.get(f"{FRAMEWORKS}/failing").expect(200)
        return answer if answer.body.get("status", {}).get("state") == "Completed" else None

    answer = wait_for("the Framework to complete", look)
    assert answer.body["status"]["attemptStatus"]["completionStatus"]["code"] == 3


def test_cluster_without_controller(home: Home) -> None:
    with commands.local(home, "--no-controller") as local:
        assert local.status()["controller"] is False
        assert local.client.get(FRAMEWORKS).code == 404
        assert local.new_place().start("echo hello").output() == ["hello"]


# Down


def polite(place: Place, told: Path) -> Pod:
    """Return a pod that takes time to end and reports that it did."""
    run = f"trap 'sleep 0.5; echo asked >> {told}; exit 0' TERM; echo armed; sleep 100000 & wait"
    pod = place.start(run, terminationGracePeriodSeconds=600)
    pod.says("armed")
    return pod


def test_down_waits_for_the_grace_period(anyone: Local, open_folder: Path) -> None:
    told = open_folder / "told"
    place = anyone.new_place()
    polite(place, told)
    place.start(STUBBORN, terminationGracePeriodSeconds=1).says("armed")
    traces = anyone.home.traces()
    assert anyone.tell("down").expect(0).stdout == "the cluster has stopped\n"
    assert told.read_text() == "asked\n"
    traces.wait_until_gone()


def test_stored_objects_survive_down(local: Local) -> None:
    """So does the address."""
    path = "/api/v1/namespaces/default/configmaps"
    local.client.post(path, config_map("words", a="b")).expect(201)
    url = local.status()["url"]
    local.tell("down").expect(0)
    assert local.tell("status").expect(3).stdout.startswith("not running\n")
    assert json.loads(local.tell("status", "--output", "json").expect(3).stdout)["running"] is False
    done = local.up()
    assert f"the cluster is running: {url}," in done.stderr
    assert local.client.get(f"{path}/words").expect(200).body["data"] == {"a": "b"}


def test_down_twice_changes_nothing(local: Local, open_folder: Path) -> None:
    """It starts nothing, although a stored pod will run again."""
    starts = open_folder / "starts"
    run = f"echo started >> {starts}; trap 'exit 0' TERM; echo armed; sleep 100000 & wait"
    local.new_place().start(run, restartPolicy="Always").says("armed")
    local.tell("down").expect(0)
    assert local.tell("down").expect(0) == commands.Done(0, "the cluster is not running\n", "")
    assert starts.read_text() == "started\n"


# A daemon that ended otherwise


def test_next_daemon_adopts_running_pods(local: Local, open_folder: Path) -> None:
    place = local.new_place()
    pod = place.start(f"echo begun; until [ -e {open_folder}/go ]; do sleep 0.1; done; echo gone; exit 7")
    pod.says("begun")
    before = pod.running()
    local.kill()
    assert local.tell("status").expect(3).stdout.startswith("not running\n")
    local.up()
    place.client = local.client
    after = pod.running()
    assert (after.container(), after.address) == (before.container(), before.address)
    (open_folder / "go").touch()
    assert pod.ended().exit_code() == 7
    assert pod.log().splitlines() == ["begun", "gone"]


def test_foreground_daemon(home: Home, open_folder: Path) -> None:
    """Ctrl-C ends the daemon, and `down` its pods."""
    told = open_folder / "told"
    command = home.begin("local", "up", "--foreground")
    command.says("export KUBECONFIG=")
    local = Local(home)
    local.connect(command.output)
    try:
        polite(local.new_place(), told)
        traces = home.traces()
        command.press_ctrl_c()
        command.done().expect(0)
        assert not told.exists(), "the pod goes on running"
        done = local.tell("down").expect(0)
        assert done.stdout == "the cluster was not running; its remaining pods were stopped\n"
        assert told.read_text() == "asked\n"
        traces.wait_until_gone()
    finally:
        local.close()


# Folders


def test_two_clusters_at_once(local: Local) -> None:
    with commands.local(local.home, data=local.home.folder / "the second one") as other:
        assert local.client.access.port != other.client.access.port
        pods = [each.new_place().start(FOREVER) for each in (local, other)]
        for pod in pods:
            pod.running()
        other.tell("down").expect(0)
        assert pods[0].execute("true").code == 0
        assert local.status()["pods"] == {"Running": 1}


def test_reset_deletes_everything(local: Local, open_folder: Path) -> None:
    told = open_folder / "told"
    polite(local.new_place(), told)
    traces = local.home.traces()
    local.tell("reset", given=b"n\n").expect(1)
    assert local.status()["pods"] == {"Running": 1}
    done = local.tell("reset", "--yes").expect(0)
    assert done.lines == ["the cluster has stopped", f"{local.data} deleted"]
    assert told.read_text() == "asked\n"
    assert not local.data.exists()
    traces.wait_until_gone()
    assert local.tell("reset", "--yes").expect(0).lines == [f"{local.data} does not exist"]


@pytest.mark.parametrize("command", [["reset", "--yes"], ["up"]], ids=lambda command: str(command[0]))
def test_folder_of_another_user_is_rejected(home: Home, command: list[str]) -> None:
    folder = home.folder / "thesis"
    folder.mkdir()
    (folder / "thesis.tex").write_text("all of it")
    done = Local(home, folder).tell(*command).expect(1)
    assert done.stdout == ""
    (message,) = done.stderr.splitlines()
    assert f"{folder} is " in message
    assert "is not a data directory of Windlass" in message
    assert [each.name for each in folder.iterdir()] == ["thesis.tex"]


# A cluster that cannot start


def test_port_in_use_is_reported(home: Home) -> None:
    local = Local(home)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        done = local.tell("up", "--listen", address).expect(1)
    assert done.stdout == ""
    (message,) = done.stderr.splitlines()
    assert message.startswith("windlass: the cluster cannot start: ")
    assert address in message
    local.tell("status").expect(3)
    wait_for("nothing to be left", lambda: not machine.marked(home.mark))


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("0.0.0.0:0", 1, "cannot listen on 0.0.0.0: it is not a loopback address"),
        ("nowhere", 2, "'nowhere' is not host:port"),
        ("127.0.0.1:100000", 2, "'127.0.0.1:100000' is not host:port"),
    ],
)
def test_non_loopback_address_is_rejected(home: Home, address: str, code: int, words: str) -> None:
    done = Local(home).tell("up", "--listen", address).expect(code)
    assert done.stdout == ""
    assert words in done.stderr.splitlines()[-1]
    wait_for("nothing to be left", lambda: not machine.marked(home.mark))


def test_unavailable_network_is_reported() -> None:
    with commands.home(levels.level("plain")) as home:
        done = Local(home).tell("up", "--network", "isolated").expect(1)
        assert done.stdout == ""
        (message,) = done.stderr.splitlines()
        assert message.startswith("windlass: the cluster cannot start: ")
        assert "cannot isolate the network of pods" in message
        wait_for("nothing to be left", lambda: not machine.marked(home.mark))


def test_unreadable_database_is_reported(home: Home) -> None:
    local = Local(home)
    home.windlass("local", "image", "add", "x", home.folder).expect(0)
    (local.data / "cluster.db").write_bytes(b"this is no database" * 1000)
    done = local.tell("up").expect(1)
    assert done.stdout == ""
    (message,) = done.stderr.splitlines()
    words = f"the cluster cannot start: cannot use {local.data}/cluster.db: it is damaged or not a Windlass database"
    assert message.startswith(f"windlass: {words}")
    wait_for("nothing to be left", lambda: not machine.marked(home.mark))


def test_reset_works_with_a_damaged_database(local: Local) -> None:
    local.new_place().start(FOREVER).running()
    traces = local.home.traces()
    local.kill()
    # SQLite could repair the database from its log.
    for file in local.data.glob("cluster.db*"):
        file.write_bytes(b"this is no database" * 1000)
    for command in ("up", "down"):
        done = local.tell(command).expect(1)
        (message,) = done.stderr.splitlines()
        assert f"run `windlass local reset --data-dir {local.data}`" in message
    done = local.tell("reset", "--yes").expect(0)
    assert done.lines == [
        "the cluster was not running; its remaining pods were stopped",
        f"{local.data} deleted",
    ]
    traces.wait_until_gone()


def test_up_with_ui_serves_the_dashboard_until_ctrl_c(home: Home) -> None:
    with commands.local(home) as local:
        command = home.begin("local", "up", "--ui")
        command.says("code=")
        (link,) = re.findall(r"http://127\.0\.0\.1:\d+/login\?code=\S+", command.output)
        assert shlex.split(command.output)[:2] == ["export", f"KUBECONFIG={local.data}/kubeconfig"]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(link) as page:
            address = page.url
        with opener.open(f"{address}api/v1/session") as answer:
            assert json.loads(answer.read())["cluster"]["kind"] == "embedded"
        command.press_ctrl_c()
        command.done().expect(0)
        with pytest.raises(urllib.error.URLError):
            opener.open(address)
        assert local.status()["running"] is True
