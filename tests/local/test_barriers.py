"""Tasks learn their peers with running pods: by name before the start, and by the barrier after it."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pods import commands, daemons, levels
from pods.commands import Done, Home, framework, role
from pods.daemons import Network
from pods.specs import FOREVER, field, mount

from conformance.client import Answer, Json
from conformance.waiting import wait_for, wait_until

FOLDER: Final = "/mnt/frameworkbarrier"


class Place:
    """A place to run jobs with this kind of network."""

    def __init__(self, home: Home, network: Network) -> None:
        self.home = home
        self.network = network

    def run(self, job: Json, *options: str | Path) -> Done:
        return self.home.run(job, options=("--network", self.network, *options))

    def begin(self, job: Json) -> commands.Command:
        return self.home.begin_run(job, options=("--network", self.network))


# The barrier provides files.
@pytest.fixture(params=daemons.WITH_MOUNTS, ids=str)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    kind: daemons.Kind = request.param
    if reason := levels.why_not(kind.level):
        pytest.skip(reason)
    with commands.home(levels.level(kind.level)) as home:
        yield Place(home, kind.network)
        assert not home.runs


@pytest.fixture
def home(best: levels.Level) -> Iterator[Home]:
    if not best.has_mounts:
        pytest.skip("the barrier hands over files, and pods have no mounts of their own here")
    with commands.home(best) as made:
        yield made


def all_of(*roles: Json) -> Json:
    """Return a role that completes when all its tasks have."""
    for each in roles:
        each["frameworkAttemptCompletionPolicy"]["minSucceededTaskCount"] = -1
    return framework(*roles)


def asking(job: Json, **asks: str) -> Json:
    annotations = {f"windlass.dev/{name}": value for name, value in asks.items()}
    return {**job, "metadata": {**job["metadata"], "annotations": annotations}}


def said(done: Done, task: str) -> list[str]:
    """Return the output of the task's main container."""
    spoken = (line.partition(" | ") for line in done.lines)
    return [
        words
        for who, _, words in spoken
        if who.strip() == task and not words.startswith("windlass barrier: ")
    ]


OWN_ADDRESS: Final = field("OWN_ADDRESS", "status.podIP")


def addresses(done: Done, *tasks: str) -> list[str]:
    """Return the last output of each task."""
    return [
        [words.partition(" ")[2] for words in said(done, task) if words.startswith("own ")][-1]
        for task in tasks
    ]


# By the barrier

SHOW: Final = f"""
set -u
echo "own $OWN_ADDRESS"
echo "ips $FB_PS_IPS $FB_WORKER_IPS"
echo "addresses $FB_PS_ADDRESSES $FB_WORKER_ADDRESSES"
. {FOLDER}/injector.sh >/dev/null && echo "sourced $FB_PS_ADDRESSES"
echo "hostfile $(tr '\\n' ' ' <{FOLDER}/hostfile)"
echo "tf_config $(cat {FOLDER}/tf_config.json)"
echo "framework $(cat {FOLDER}/framework.json)"
"""


def test_every_task_gets_all_addresses(place: Place) -> None:
    container = place.home.container(SHOW, ports=[{"containerPort": 49866}], env=[OWN_ADDRESS])
    job = asking(all_of(role(container, "ps"), role(container, tasks=2)), barrier="true")
    done = place.run(job).expect(0)
    tasks = ("ps-0", "worker-0", "worker-1")
    ps, *workers = addresses(done, *tasks)
    for task in tasks:
        told = dict(line.split(" ", 1) for line in said(done, task) if " " in line)
        assert told["ips"] == f"{ps} {','.join(workers)}"
        assert told["addresses"] == f"{ps}:49866 {','.join(f'{each}:49866' for each in workers)}"
        assert told["sourced"] == f"{ps}:49866"
        assert told["hostfile"].split() == [word for each in (ps, *workers) for word in (each, "slots=1")]
        kind, _, index = task.partition("-")
        assert json.loads(told["tf_config"]) == {
            "cluster": {"ps": [f"{ps}:49866"], "worker": [f"{each}:49866" for each in workers]},
            "task": {"type": kind, "index": int(index)},
        }
        statuses = json.loads(told["framework"])["status"]["attemptStatus"]["taskRoleStatuses"]
        assert [each["attemptStatus"]["podIP"] for each in statuses[1]["taskStatuses"]] == workers
    passed = [
        line for line in done.lines if "windlass barrier: all 3 tasks of default/job have addresses" in line
    ]
    assert len(passed) == 3, done.stdout


def test_file_contains_the_variables_known_before(place: Place) -> None:
    """The user's own variable takes precedence."""
    run = f'test "$TF_CONFIG" = "$(cat {FOLDER}/tf_config.json)"; echo "same $? $PS_HOSTS"'
    container = place.home.container(run, env=[{"name": "PS_HOSTS", "value": "mine"}])
    job = asking(framework(role(container, tasks=2)), barrier="true", runtime="tensorflow")
    done = place.run(job).expect(0)
    for task in ("worker-0", "worker-1"):
        assert "same 0 mine" in said(done, task)


def test_retried_task_waits_for_its_new_address(place: Place, open_folder: Path) -> None:
    """Its new pod waits for a Gang that lists it, while the others keep running."""
    once = open_folder / "once"
    script = (
        f'[ -e {once} ] || {{ touch {once}; exit 5; }}; echo "own $OWN_ADDRESS"; echo "again $FB_RETRIED_IPS"'
    )
    volumes = [{"name": "data", "hostPath": {"path": str(open_folder)}}]
    container = place.home.container(script, volumeMounts=[mount(str(open_folder))], env=[OWN_ADDRESS])
    retried = role(container, "retried", retries=1, volumes=volumes)
    job = asking(framework(retried, role(place.home.container(FOREVER), "steady")), barrier="true")
    done = place.run(job).expect(0)
    assert "retrying retried-0 (retry 1 of 1): it exited with code 5" in done.stdout
    (address,) = addresses(done, "retried-0")
    assert said(done, "retried-0")[-1] == f"again {address}"


# By name

SERVE: Final = """
import os, socket, sys, time
mine = os.environ["PS_HOSTS"].split(",")[int(os.environ["TASK_INDEX"])] if os.environ["JOB_NAME"] == "ps" else ""
if mine:
    with socket.create_server(("", int(mine.rpartition(":")[2]))) as server:
        for _ in range(2):
            server.accept()[0].sendall(mine.encode())
    sys.exit()
for each in os.environ["PS_HOSTS"].split(","):
    host, _, port = each.rpartition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), 5) as line:
                print("met", line.recv(100).decode(), flush=True)
            break
        except OSError:
            time.sleep(0.1)
"""


def test_peers_connect_by_their_names(place: Place) -> None:
    """Two servers declare one port: on a shared network each gets its own."""
    container = place.home.container(["python3", "-c", SERVE])
    job = asking(all_of(role(container, "ps", 2), role(container, tasks=2)), runtime="plain")
    done = place.run(job).expect(0)
    for task in ("worker-0", "worker-1"):
        met = [line.split()[1] for line in said(done, task)]
        assert len(set(met)) == 2
        if place.network == "isolated":
            assert met == ["ps-0.job:2222", "ps-1.job:2222"]
        else:
            assert all(each.startswith("127.0.0.1:") for each in met)


def test_job_without_discovery_gets_nothing(home: Home) -> None:
    run = "env | grep -E '^(TF_CONFIG|.*_HOSTS|RANK|WORLD_SIZE|JOB_NAME|WINDLASS_GANG|FB_)' ; true"
    done = home.run(framework(role(home.container(run)))).expect(0)
    assert said(done, "worker-0") == []
    assert "windlass-barrier" not in done.stdout


def test_mpi_job_runs_with_the_barrier(home: Home) -> None:
    """The MPI runtime includes the barrier."""
    run = 'cat "$WINDLASS_HOSTFILE"; echo "$OMPI_MCA_orte_default_hostfile"'
    container = home.container(run)
    job = asking(all_of(role(container, "launcher"), role(container, tasks=2)), runtime="mpi")
    done = home.run(job).expect(0)
    assert said(done, "launcher-0")[-3:] == [
        "worker-0.job slots=1",
        "worker-1.job slots=1",
        f"{FOLDER}/hostfile",
    ]


# The wrapped command


@pytest.mark.parametrize(
    ("run", "exit_code", "phrase"),
    [
        ("exit 3", 3, "ContainerUnrecognizedFailed"),
        ("kill -9 $$$$; sleep 100000", 137, "ContainerSigKillReceived"),
    ],
)
def test_wrapped_command_keeps_its_exit_code(run: str, exit_code: int, phrase: str, home: Home) -> None:
    job = asking(framework(role(home.container(run))), barrier="true")
    done = home.run(job, options=("--output", "json")).expect(exit_code)
    assert done.json_lines[-1]["phrase"] == phrase


def test_wrapped_command_keeps_its_arguments(home: Home) -> None:
    container = home.container(["printf", "<%s>"], args=["a b", "", "$(FC_TASK_INDEX)", "$FB_WORKER_IPS"])
    done = home.run(asking(framework(role(container)), barrier="true")).expect(0)
    assert said(done, "worker-0")[-1] == "<a b><><0><$FB_WORKER_IPS>"


# Pods with their own barrier


def test_own_barrier_container_is_kept(home: Home) -> None:
    """It reads the Gang, and may read no Framework."""
    asks_another = "windlass barrier --print-hosts --framework other || echo code $?"
    script = f'echo "own $OWN_ADDRESS"; windlass barrier --print-hosts; {asks_another}'
    container = home.container(script, env=[OWN_ADDRESS])
    done = home.run(asking(framework(role(container, tasks=2)), barrier="own")).expect(0)
    first, second = addresses(done, "worker-0", "worker-1")
    assert f"windlass_worker_ips='{first},{second}'" in said(done, "worker-0")
    assert said(done, "worker-0")[-1] == "code 1"
    assert "windlass-barrier" not in done.stdout


# Existing Frameworks with the barrier of FrameworkController, which reads the Framework

ACCOUNT: Final = "frameworkbarrier"
RBAC: Final = "rbac.authorization.k8s.io"


def barrier_of_reference(home: Home, name: str) -> Json:
    """Return a Framework without annotations. The image of its barrier was replaced."""
    often = [{"name": "BARRIER_CHECK_INTERVAL_SEC", "value": "5"}]
    reads = home.container(". ./injector.sh && echo peers $FB_WORKER_IPS", env=often)
    container = reads | {"workingDir": FOLDER, "volumeMounts": [mount(FOLDER, "barrier")]}
    barrier = container | {"name": "frameworkbarrier", "command": ["windlass", "barrier"]}
    volume = {"name": "barrier", "emptyDir": {}}
    pod: Json = {"serviceAccountName": ACCOUNT, "initContainers": [barrier], "volumes": [volume]}
    return framework(role(container, tasks=2, **pod), name=name)


def test_run_accepts_the_barrier_of_frameworkcontroller(home: Home) -> None:
    """Its service account and role cannot exist on a new cluster."""
    done = home.run(barrier_of_reference(home, "job")).expect(0)
    peers = {said(done, task)[-1] for task in ("worker-0", "worker-1")}
    assert re.fullmatch(r"peers [\d.]+,[\d.]+", peers.pop())
    assert not peers, "both tasks have the same list"


def has_completed(framework: Answer) -> bool:
    return bool((framework.body.get("status") or {}).get("state") == "Completed")


def test_role_of_frameworkcontroller_is_sufficient(home: Home) -> None:
    """On other clusters RBAC decides: without the role, the barrier is denied. The verb get is sufficient."""
    with commands.local(home) as local:
        place = local.new_place()

        def code_of(name: str) -> int:
            job = barrier_of_reference(home, name)
            path = f"/apis/{commands.GROUP}/namespaces/{place.namespace}/frameworks"
            local.client.post(path, job).expect(201)

            answer = wait_until(local.client, f"{path}/{name}", has_completed)
            return int(answer.body["status"]["attemptStatus"]["completionStatus"]["code"])

        assert code_of("denied") == 1
        rules = [
            {"apiGroups": [commands.GROUP.partition("/")[0]], "resources": ["frameworks"], "verbs": ["get"]}
        ]
        metadata, role_of = {"name": ACCOUNT}, {"apiGroup": RBAC, "kind": "ClusterRole", "name": ACCOUNT}
        user = f"system:serviceaccount:{place.namespace}:{ACCOUNT}"
        subject = {"apiGroup": RBAC, "kind": "User", "name": user}
        local.client.post(place.path("serviceaccounts"), {"metadata": metadata}).expect(201)
        cluster_roles = f"/apis/{RBAC}/v1/clusterroles"
        local.client.post(cluster_roles, {"metadata": metadata, "rules": rules}).expect(201)
        binding = {"metadata": metadata, "roleRef": role_of, "subjects": [subject]}
        local.client.post(f"/apis/{RBAC}/v1/clusterrolebindings", binding).expect(201)
        assert code_of("allowed") == 0


# Barriers that time out

NOWHERE: Final = {"kubernetes.io/hostname": "nowhere"}


def test_task_without_address_times_out(home: Home) -> None:
    """After the minimum timeout of a barrier it exits with 201, which the controller treats as a conflict."""
    least = [{"name": "BARRIER_CHECK_TIMEOUT_SEC", "value": "60"}]
    waits = role(home.container("echo never", env=least))
    missing = role(home.container("true"), "missing", nodeSelector=NOWHERE)
    job = asking(framework(waits, missing), barrier="true")
    done = home.run(job).expect(201)
    assert "never" not in said(done, "worker-0")
    assert "timed out after 60 s: not all tasks of default/job are known to have an address" in done.stdout
    assert "failed: worker-0 exited with code 201" in done.verdict


def has_barrier(framework: str) -> bool:
    """Return the barriers among the processes of this machine: a waiting barrier prints nothing."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_barrier = b"\0barrier\0" in (folder / "cmdline").read_bytes()
            if (
                is_barrier
                and f"FC_FRAMEWORK_NAME={framework}\0".encode() in (folder / "environ").read_bytes()
            ):
                return True
    return False


def test_stopping_a_job_ends_waiting_barriers(home: Home) -> None:
    """They end at once, without waiting for the grace period."""
    waits = role(home.container("true"), terminationGracePeriodSeconds=600)
    missing = role(home.container("true"), "missing", nodeSelector=NOWHERE)
    name = f"job-{home.mark[:12]}"
    command = home.begin_run(asking(framework(waits, missing, name=name), barrier="true"))
    wait_for("a barrier that runs", lambda: has_barrier(name))
    traces = home.traces()
    command.press_ctrl_c()
    done = command.done().expect(130)
    assert "stopped" in done.verdict
    traces.wait_until_gone()


# Code of a job


def test_code_is_mounted_from_a_config_map(home: Home, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("import helper; print('trained with', helper.WORDS)\n")
    (code / "helper.py").write_text("WORDS = 'ümlauts'\n")
    (code / "data.bin").write_bytes(b"\xff\x00")
    tmp_path.chmod(0o755)
    run = "python3 /code/train.py && od -An -tx1 /code/data.bin"
    container = home.container(run, volumeMounts=[mount("/code", "code")])
    job = framework(role(container, volumes=[{"name": "code", "configMap": {"name": "job-code"}}]))
    done = home.run(job, options=("--config-map", f"job-code={code}")).expect(0)
    assert said(done, "worker-0") == ["trained with ümlauts", " ff 00"]


def test_rejected_config_map_fails_the_run(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    job = framework(role(home.container("true")))
    done = home.run(job, options=("--config-map", f"Bad_Name={tmp_path}")).expect(2)
    assert "the cluster rejected ConfigMap Bad_Name" in done.stdout + done.stderr
