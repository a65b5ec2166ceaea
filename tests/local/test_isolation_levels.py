"""The core features of pods at every isolation level, on an isolated and on a shared network."""

import socket
from pathlib import Path

import pytest
from pods import daemons, streaming
from pods.daemons import Daemon
from pods.levels import Level
from pods.outside import PORT, WORDS
from pods.place import Place
from pods.specs import (
    FOREVER,
    config_map,
    container,
    field,
    free_port,
    host_path,
    mounted,
    scratch,
    web_server,
)

from conformance.client import Json
from conformance.waiting import wait_for

with_mounts = pytest.mark.parametrize("local", daemons.WITH_MOUNTS, ids=str, indirect=True)


def test_output_exit_codes_and_signals_are_reported(place: Place) -> None:
    """The command is never process 1, so that signals have their usual effect."""
    succeeding = place.start("echo hello")
    codes = {place.start(f"exit {code}"): code for code in (1, 42, 255)}
    signals = {"KILL": 137, "TERM": 143, "SEGV": 139}
    codes |= {place.start(f"kill -{name} $$$$; sleep 100000"): code for name, code in signals.items()}
    assert succeeding.output() == ["hello"]
    assert succeeding.seen().exit_code() == 0
    for pod, code in codes.items():
        seen = pod.ended()
        assert (seen.phase, seen.exit_code()) == ("Failed", code), pod.description(seen)


def test_sigterm_ends_a_plain_process(place: Place) -> None:
    with place.held(["sleep", "100000"], terminationGracePeriodSeconds=100000) as pod:
        pod.running()
        pod.delete()
        assert pod.wait("to end", lambda seen: seen.terminated()).exit_code() == 143


def test_memory_volume_at_dev_shm_needs_no_mounts(place: Place) -> None:
    script = "echo hello > /dev/shm/$(POD_NAME); cat /dev/shm/$(POD_NAME); rm /dev/shm/$(POD_NAME)"
    env = [field("POD_NAME", "metadata.name")]
    volumes = scratch(medium="Memory", sizeLimit="8Mi")
    assert place.start(mounted(script, at="/dev/shm", env=env), volumes=volumes).output() == ["hello"]  # noqa: S108


def test_environment_is_passed(place: Place) -> None:
    env = [field("NAME", "metadata.name"), {"name": "A", "value": "of $(NAME)"}]
    pod = place.start(container('echo "$A"', env=env))
    assert pod.output() == [f"of {pod.name}"]


def test_secrets_of_the_daemon_do_not_reach_pods(best: Level) -> None:
    """Neither the container nor its init process, which is a fork of the spawner, has them."""
    secrets = ("PIP_INDEX_URL=http://me:sesame@x", "http_proxy=http://me:sesame@x", "LC_API_TOKEN=sesame")
    with daemons.running(best, is_ephemeral=True, before=("env", *secrets, "TERM=known")) as daemon:
        pod = daemon.new_place().start("tr '\\0' '\\n' < /proc/1/environ; env")
        output = "\n".join(pod.output())
    assert "TERM=known" in output
    assert "sesame" not in output


def test_pod_gets_an_address(place: Place) -> None:
    first, second = (place.start(FOREVER).running().address for _ in range(2))
    assert first
    assert first != second


def test_log_and_restart(place: Place, open_folder: Path) -> None:
    run = (
        f"if [ -e {open_folder}/x ]; then echo second; exit 0; fi; touch {open_folder}/x; echo first; exit 1"
    )
    pod = place.start(run, restartPolicy="OnFailure")
    assert pod.output() == ["second"]
    assert pod.seen().restarts() == 1
    assert pod.log(previous="true") == "first\n"


def test_exec_returns_output_and_code(place: Place) -> None:
    pod = place.start(container(FOREVER, env=[{"name": "COLOUR", "value": "blue"}]))
    pod.running()
    done = pod.sh("echo $COLOUR; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.code) == (b"blue\n", b"err\n", 3)
    assert pod.sh("test -t 0 && echo yes", tty=True).stdout == b"yes\r\n"
    assert pod.execute("head", "-c", "5", stdin=b"hello world").stdout == b"hello"


def test_exec_probe_makes_a_pod_ready(place: Place, open_folder: Path) -> None:
    probe = {"exec": {"command": ["test", "-e", f"{open_folder}/good"]}, "periodSeconds": 1}
    pod = place.start(container(FOREVER, readinessProbe=probe))
    pod.event("Unhealthy")
    pod.sh(f"touch {open_folder}/good")
    assert pod.ready().phase == "Running"


def test_container_that_ignores_sigterm_is_killed(place: Place) -> None:
    pod = place.start(
        "trap '' TERM; echo armed; while true; do sleep 1; done", terminationGracePeriodSeconds=1
    )
    pod.says("armed")
    pod.delete()
    pod.wait_until_gone()


DETACHED = "import os, time; os.fork() or (os.setsid(), os.fork() or time.sleep(100000)); time.sleep(100000)"


def test_deletion_leaves_no_process(place: Place, local: Daemon) -> None:
    """Including processes that were detached from their parents."""
    name = f"detached-{place.namespace}"
    env = [{"name": "CONTAINER", "value": name}]
    pod = place.start(container(["python3", "-c", DETACHED], env=env), terminationGracePeriodSeconds=1)
    wait_for("three processes", lambda: len(local.all_inside(name)) == 3)
    pod.sh("sleep 100000 > /dev/null 2>&1 &")
    wait_for("four processes", lambda: len(local.all_inside(name)) == 4)
    pod.delete()
    pod.wait_until_gone()
    wait_for("no process", lambda: not local.all_inside(name))


def test_end_of_a_container_leaves_no_process(place: Place, local: Daemon) -> None:
    name = f"left-{place.namespace}"
    env = [{"name": "CONTAINER", "value": name}]
    run = "setsid sleep 100000 > /dev/null 2>&1 & exit 3"
    pod = place.start(container(run, env=env))
    assert pod.ended().exit_code() == 3
    wait_for("no process", lambda: not local.all_inside(name))


# A process whose parent has ended; its PID is written.
ORPHAN = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        print(os.getpid(), flush=True)
    os._exit(0)
os.wait()
time.sleep(100000)
"""


def test_orphaned_processes_are_reaped(place: Place) -> None:
    """No zombie stays in a container."""
    pod = place.start(["python3", "-c", ORPHAN])
    orphan = int(pod.says("\n"))
    wait_for("it to be reaped", lambda: pod.sh(f"test -e /proc/{orphan}").code == 1)
    pod.stays("running", lambda seen: seen.running(), seconds=0.5)


def test_ports_are_forwarded(place: Place, local: Daemon) -> None:
    port = free_port()
    serve = f"""
import os, socket
with socket.create_server((os.environ["POD_IP"], {port})) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    connection.sendall(b"you said " + connection.recv(100))
"""
    if local.level.has_own_network and "isolated" in local.network:
        serve = serve.replace('os.environ["POD_IP"]', '"127.0.0.1"')
    main = container(["python3", "-c", serve], env=[field("POD_IP", "status.podIP")])
    pod = place.start({**main, "ports": [{"containerPort": port}]})
    pod.says("listening")
    answer = streaming.forward(place.client.access, f"{pod.path}/portforward", port, b"hello")
    assert (answer.data, answer.error) == (b"you said hello", "")


TALK = """
import os, socket, sys, time
role, port = sys.argv[1], int(sys.argv[2])
if role == "server":
    with socket.create_server((os.environ["POD_IP"], port)) as server:
        print("listening", flush=True)
        connection, address = server.accept()
        connection.sendall(b"hello " + address[0].encode())
else:
    with socket.create_connection((role, port), timeout=60) as connection:
        print(connection.recv(100).decode())
"""


def talking(*words: str) -> Json:
    return container(["python3", "-c", TALK, *words], env=[field("POD_IP", "status.podIP")])


def test_pods_reach_each_other(place: Place) -> None:
    port = str(free_port())
    server = place.start(talking("server", port))
    server.says("listening")
    client = place.start(talking(server.running().address, port))
    assert client.output()[0].startswith("hello ")
    assert server.ended().phase == "Succeeded"


def test_two_pods_listen_on_the_same_port(place: Place) -> None:
    """Each on its own address."""
    port = str(free_port())
    servers = [place.start(talking("server", port)) for _ in range(2)]
    for server in servers:
        server.says("listening")
        assert place.start(talking(server.running().address, port)).output()


@pytest.fixture
def leading_out(place: Place, local: Daemon) -> Place:
    if "cannot reach other networks" in local.tail():
        pytest.skip("needs pasta (Debian package passt) or slirp4netns for a way out of the pods' network")
    return place


def test_pods_reach_the_internet(leading_out: Place, outside: str) -> None:
    assert leading_out.start(talking(outside, str(PORT))).output() == [WORDS]


def test_pods_reach_the_machine(leading_out: Place) -> None:
    """A server on the machine, outside of all pods."""
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104
        server.settimeout(60)
        address = outward_address()
        if not address:
            pytest.skip("this machine has no address but loopback")
        client = leading_out.start(talking(address, str(server.getsockname()[1])))
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello from the machine")
    assert client.output() == ["hello from the machine"]


def outward_address() -> str:
    """Return the address of the interface with the default route; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


@with_mounts
def test_http_probe_makes_a_pod_ready(place: Place) -> None:
    port = free_port()
    probe = {"httpGet": {"port": port, "path": "/good"}, "periodSeconds": 1}
    pod = place.start(web_server(port, readinessProbe=probe), volumes=scratch())
    pod.event("Unhealthy", "HTTP probe failed with statuscode: 404")
    pod.sh("touch /data/good")
    assert pod.ready().phase == "Running"


# Files


@with_mounts
def test_volumes_are_mounted(place: Place) -> None:
    place.create(config_map("words", word="hello"))
    volumes = [*scratch(), {"name": "words", "configMap": {"name": "words"}}]
    mounts = [{"name": "data", "mountPath": "/there/was/none"}, {"name": "words", "mountPath": "/data"}]
    run = (
        "cp /data/word /there/was/none; cat /there/was/none/word; echo; touch /data/x 2> /dev/null || echo no"
    )
    lines = place.start(container(run, volumeMounts=mounts), volumes=volumes).output()
    assert (lines[0], lines[-1]) == ("hello", "no")


@with_mounts
def test_host_path_is_mounted(place: Place, open_folder: Path) -> None:
    pod = place.start(mounted("echo hello > /data/word"), volumes=host_path(str(open_folder), "Directory"))
    assert pod.output() == []
    assert (open_folder / "word").read_text() == "hello\n"


@with_mounts
def test_host_name_and_hosts_file(place: Place) -> None:
    pod = place.start("uname -n; cat /etc/hosts", hostname="chosen")
    lines = pod.output()
    assert lines[0] == "chosen"
    assert any(line.split()[-1:] == ["chosen"] for line in lines[1:])


@with_mounts
def test_root_file_system_is_private(place: Place) -> None:
    """Files outside of the machine's folders are visible in the pod only."""
    pod = place.start("mkdir -p /new/folder && touch /new/folder/x && ls /new/folder")
    assert pod.output() == ["x"]
    assert place.start("ls /new || echo none").output()[-1] == "none"


@with_mounts
def test_api_server_is_reachable_from_a_pod(place: Place) -> None:
    from_inside = """
import os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
context = ssl.create_default_context(cafile=folder + "/ca.crt")
address = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
headers = {"Authorization": "Bearer " + open(folder + "/token").read()}
request = urllib.request.Request("https://%s:%s/version" % address, headers=headers)
print(urllib.request.urlopen(request, context=context, timeout=60).status)
"""
    assert place.start(["python3", "-c", from_inside]).output() == ["200"]


def test_memory_limit_kills_a_container(place: Place) -> None:
    """By a cgroup if possible, otherwise by polling."""
    run = "import time\nhoard = []\nwhile len(hoard) < 600: hoard.append(b'x' * 2**20); time.sleep(0.005)"
    main = container(["python3", "-c", run], resources={"limits": {"memory": "64Mi"}})
    seen = place.start(main).ended()
    assert (seen.exit_code(), (seen.terminated() or {})["reason"]) == (137, "OOMKilled")


# Without mounts


@pytest.mark.parametrize("local", daemons.WITHOUT_MOUNTS, ids=str, indirect=True)
def test_impossible_mount_is_rejected(place: Place) -> None:
    pod = place.start(mounted("true", at="/there/is/none"), volumes=scratch())
    seen = pod.wait("to be refused", lambda seen: seen.is_over or "Error" in seen.waits_for())
    assert seen.phase != "Succeeded"
    said = {**(seen.terminated() or {}), **(seen.waiting() or {})}
    assert "/there/is/none" in said["message"]


@pytest.mark.parametrize("local", daemons.WITHOUT_MOUNTS, ids=str, indirect=True)
def test_read_only_root_is_reported_as_not_applied(place: Place) -> None:
    context = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
    pod = place.start(container("grep NoNewPrivs /proc/self/status", securityContext=context))
    assert pod.output() == ["NoNewPrivs:\t1"]
    event = pod.event("SecurityContextNotApplied", "readOnlyRootFilesystem")
    assert event["type"] == "Warning"
    assert "allowPrivilegeEscalation" not in event["message"]
