"""Features of a pod: DNS name, TensorFlow server, barrier, and wrapped commands."""

import contextlib
import copy
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import gang_objects
import pytest

from windlass.discovery import files, tf_server
from windlass.model import names
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import Framework
from windlass.objects import attempt, pod
from windlass.objects.pod import PodOptions

OPTIONS = PodOptions(barrier_image="windlass:test")
FOLDER = "/mnt/frameworkbarrier"
MOUNT = {"name": "windlass-barrier", "mountPath": FOLDER}


def framework_with(
    spec: Json | None = None, *, runtime: str = "", barrier: str = "", idle: str = "", **fields: Any
) -> Framework:
    annotations = {
        names.RUNTIME_ANNOTATION: runtime,
        names.BARRIER_ANNOTATION: barrier,
        names.IDLE_ANNOTATION: idle,
    }
    return gang_objects.framework(
        pod={"spec": {"containers": [{"name": "main", "command": ["run"]}]} if spec is None else spec},
        annotations={name: value for name, value in annotations.items() if value},
        **fields,
    )


def pod_spec(framework: Framework, role: str = "worker", index: int = 1) -> Json:
    spec: Json = pod.pod(framework, role, index, OPTIONS)["spec"]
    return spec


def names_of(container: Json) -> list[str]:
    return [variable["name"] for variable in container["env"]]


def value_of(container: Json, name: str) -> str:
    """Return the variables as the kubelet sets them: the last one wins."""
    found: str = [variable["value"] for variable in container["env"] if variable["name"] == name][-1]
    return found


# Who annotations for nothing


@pytest.mark.parametrize("barrier", ["", "false"])
def test_pod_without_annotations_gets_no_features(barrier: str) -> None:
    """FC_* variables only, and the user's spec unchanged."""
    spec = pod_spec(framework_with(barrier=barrier))
    assert spec.keys() == {"containers"}
    (container,) = spec["containers"]
    assert container["command"] == ["run"]
    assert all(name.startswith("FC_") for name in names_of(container))
    assert "volumeMounts" not in container


def test_pod_of_the_launcher_group_gets_no_features() -> None:
    (container,) = pod_spec(framework_with(group=names.LAUNCHER_GROUP))["containers"]
    others = [name for name in names_of(container) if not name.startswith("FC_")]
    assert others == ["taskindex", "TASK_INDEX"]


# By name


def test_variables_come_before_the_users_own() -> None:
    """The user's variables may refer to them and override them."""
    own = [{"name": "TF_CONFIG", "value": "mine"}, {"name": "MINE", "value": "$(PS_HOSTS)"}]
    given = {
        "initContainers": [{"name": "first", "command": ["a"], "env": own}],
        "containers": [{"name": "main", "command": ["b"], "env": own}, {"name": "beside", "command": ["c"]}],
    }
    spec = pod_spec(framework_with(given, runtime="tensorflow"))
    for container in (*spec["initContainers"], spec["containers"][0]):
        assert names_of(container)[-2:] == ["TF_CONFIG", "MINE"]
        assert value_of(container, "TF_CONFIG") == "mine"
        assert value_of(container, "PS_HOSTS") == "ps-0.digits:2222"
    beside = spec["containers"][1]
    assert '"index":1' in value_of(beside, "TF_CONFIG")
    assert names_of(beside)[0] == "FC_FRAMEWORK_NAMESPACE"


@pytest.mark.parametrize("runtime", list(map(str, Runtime)))
def test_pod_gets_hostname_and_subdomain(runtime: str) -> None:
    spec = pod_spec(framework_with(runtime=runtime), "ps", 0)
    assert (spec["hostname"], spec["subdomain"]) == ("ps-0", "digits")


def test_hostname_and_subdomain_of_the_template_are_kept() -> None:
    own = {"hostname": "{{FC_POD_NAME}}-a", "subdomain": "net"}
    made = framework_with({"containers": [{"name": "main"}], **own}, runtime="plain")
    spec = pod_spec(made, "worker", 1)
    assert (spec["hostname"], spec["subdomain"]) == ("digits-worker-1-a", "net")
    hosts = "digits-worker-0-a.net:2222,digits-worker-1-a.net:2222"
    assert value_of(spec["containers"][0], "WORKER_HOSTS") == hosts


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, None),
        ({"hostNetwork": False}, None),
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": ""}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
        ({"hostNetwork": True, "dnsPolicy": "None"}, "None"),
    ],
    ids=str,
)
def test_host_network_pod_uses_cluster_dns(given: Json, policy: str | None) -> None:
    """On the host network, the DNS policy must select the cluster's DNS."""
    spec = pod_spec(framework_with({"containers": [], **given}, runtime="plain"))
    assert spec.get("dnsPolicy") == policy
    alone = pod_spec(framework_with({"containers": [], **given}))
    assert alone.get("dnsPolicy") == given.get("dnsPolicy")


def test_shared_network_ports_are_in_the_environment() -> None:
    spec = pod.pod(
        framework_with(runtime="plain"), "worker", 0, PodOptions(ports={"ps": 20000, "worker": 20010})
    )["spec"]
    assert value_of(spec["containers"][0], "WORKER_HOSTS") == "127.0.0.1:20010,127.0.0.1:20011"


def test_service_is_headless_and_publishes_unready_addresses() -> None:
    """The Service selects the pods by label and publishes those that are not ready."""
    framework = framework_with(runtime="plain")
    manifest = attempt.service(framework)
    assert (manifest["metadata"]["name"], manifest["metadata"]["namespace"]) == ("digits", "research")
    assert manifest["metadata"]["ownerReferences"][0]["uid"] == "digits-uid"
    assert (manifest["spec"]["clusterIP"], manifest["spec"]["publishNotReadyAddresses"]) == ("None", True)
    labels = pod.pod(framework, "worker", 0)["metadata"]["labels"]
    assert manifest["spec"]["selector"].items() <= labels.items()


# The server of a task without a command


@pytest.mark.parametrize(
    ("runtime", "idle", "container", "is_server"),
    [
        ("tensorflow", "true", {}, True),
        ("tensorflow", "worker", {}, True),
        ("tensorflow", "ps, worker", {"command": [], "args": []}, True),
        ("tensorflow", "true", {"command": ["run"]}, False),
        ("tensorflow", "worker", {"args": ["--flag"]}, False),
        ("tensorflow", "ps", {}, False),
        ("tensorflow", "false", {}, False),
        ("tensorflow", "", {}, False),
        ("plain", "true", {}, False),
        ("", "true", {}, False),
    ],
    ids=str,
)
def test_idle_task_without_a_command_runs_a_server(
    runtime: str, idle: str, container: Json, is_server: bool
) -> None:
    """All others run their command, or the entrypoint of their image."""
    containers = [{"name": "main", **container}, {"name": "beside"}]
    spec = pod_spec(framework_with({"containers": containers}, runtime=runtime, idle=idle))
    command = spec["containers"][0].get("command")
    assert command == (list(tf_server.COMMAND) if is_server else container.get("command"))
    assert "command" not in spec["containers"][1]


@pytest.mark.parametrize(("idle", "is_server"), [("", True), ("true", True), ("ps", False), ("false", False)])
def test_task_without_a_command_runs_a_server_where_images_have_no_entrypoints(
    idle: str, is_server: bool
) -> None:
    framework = framework_with({"containers": [{"name": "main"}]}, runtime="tensorflow", idle=idle)
    options = PodOptions(has_entrypoints=False)
    command = pod.pod(framework, "worker", 1, options)["spec"]["containers"][0].get("command")
    assert command == (list(tf_server.COMMAND) if is_server else None)


def test_task_outside_the_cluster_runs_no_server() -> None:
    framework = gang_objects.framework(
        {"jupyter": ["10.0.0.3"], "ps": ["10.0.0.4"]},
        pod={"spec": {"containers": [{"name": "main"}]}},
        annotations={names.RUNTIME_ANNOTATION: "tensorflow", names.IDLE_ANNOTATION: "true"},
    )
    assert "command" not in pod_spec(framework, "jupyter", 0)["containers"][0]
    assert "command" in pod_spec(framework, "ps", 0)["containers"][0]


# The barrier


def test_barrier_is_the_first_init_container() -> None:
    given = {
        "initContainers": [{"name": "mine", "command": ["prepare"]}],
        "containers": [{"name": "main", "command": ["run"]}],
    }
    spec = pod_spec(framework_with(given, barrier="true"))
    first, mine = spec["initContainers"]
    assert (first["name"], first["image"], first["workingDir"]) == (
        "windlass-barrier",
        "windlass:test",
        FOLDER,
    )
    assert first["command"] == ["windlass", "barrier"]
    assert value_of(first, "WINDLASS_GANG") == f"digits-{gang_objects.CONFIG_MAP}"
    for container in (mine, *spec["containers"]):
        assert MOUNT in container["volumeMounts"]
        assert value_of(container, "WINDLASS_GANG") == f"digits-{gang_objects.CONFIG_MAP}"


def test_mpi_implies_the_barrier() -> None:
    assert [each["name"] for each in pod_spec(framework_with(runtime="mpi"))["initContainers"]] == [
        "windlass-barrier"
    ]


def test_own_barrier_is_not_injected() -> None:
    """Pods with their own barrier get only the name of the Gang."""
    spec = pod_spec(framework_with(barrier="own"))
    assert spec.keys() == {"containers"}
    (container,) = spec["containers"]
    assert container["command"] == ["run"]
    assert names_of(container)[-1] == "WINDLASS_GANG"


def test_pod_names_its_gang() -> None:
    framework = framework_with(barrier="true")
    published = attempt.gang(framework)
    spec = pod_spec(framework)
    assert published["metadata"]["name"] == value_of(spec["initContainers"][0], "WINDLASS_GANG")
    assert published["metadata"]["namespace"] == "research"
    owner = published["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("ConfigMap", gang_objects.CONFIG_MAP)
    assert published["spec"]["attemptInstanceUID"] == gang_objects.ATTEMPT


def test_gang_without_all_addresses_is_an_error() -> None:
    with pytest.raises(ValueError, match="a task of Framework research/digits has no address yet"):
        attempt.gang(gang_objects.framework({"worker": ["10.0.0.5", ""]}))


@pytest.mark.parametrize(
    ("given", "account"),
    [
        ({}, "default"),
        ({"serviceAccountName": "mine"}, "mine"),
        ({"serviceAccount": "mine"}, "mine"),
        ({"serviceAccountName": "", "serviceAccount": "mine"}, "mine"),
    ],
    ids=str,
)
def test_barrier_uses_the_pods_service_account(given: Json, account: str) -> None:
    """The token is that of the pod's service account, also by its old field, and is mounted separately."""
    spec = pod_spec(
        framework_with({"containers": [], "automountServiceAccountToken": False, **given}, barrier="true")
    )
    assert spec["serviceAccountName"] == account
    (barrier,) = spec["initContainers"]
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    (token,) = [mount["name"] for mount in barrier["volumeMounts"] if mount["mountPath"] == folder]
    sources = next(each for each in spec["volumes"] if each["name"] == token)["projected"]["sources"]
    assert [next(iter(each)) for each in sources] == ["serviceAccountToken", "configMap", "downwardAPI"]
    assert spec["automountServiceAccountToken"] is False


def test_barrier_gets_the_barrier_variables_of_containers() -> None:
    """Barrier variables are taken from the containers; the first value wins."""
    late = {"name": "BARRIER_CHECK_TIMEOUT_SEC", "value": "1200"}
    file = {"name": "BARRIER_CONFIGFILE", "value": "configfile"}
    spec = {
        "containers": [
            {"name": "main", "command": ["run"], "env": [late, {"name": "MINE", "value": "x"}]},
            {"name": "beside", "env": [{**late, "value": "60"}, file]},
            {"name": "odd", "env": "none"},
            {"name": "odder", "env": [None, {"name": 7}]},
        ]
    }
    (barrier,) = pod_spec(framework_with(spec, barrier="true"))["initContainers"]
    assert barrier["env"][-2:] == [late, file]
    assert "MINE" not in names_of(barrier)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([None], None),
        ([{}], None),
        (
            [{"limits": {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}}],
            {"limits": {"cpu": 1, "memory": "1Gi"}},
        ),
        ([{"limits": {"nvidia.com/gpu": 1}}, {"requests": {"cpu": 2}}], {"requests": {"cpu": 2}}),
        (["odd"], None),
    ],
    ids=str,
)
def test_barrier_gets_no_gpu(resources: list[Any], expected: Json | None) -> None:
    """The barrier gets CPU and memory, which keeps the pod's QoS class."""
    containers = [{"name": f"c{number}", "resources": each} for number, each in enumerate(resources)]
    (barrier,) = pod_spec(framework_with({"containers": containers}, barrier="true"))["initContainers"]
    assert barrier.get("resources") == expected


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "odd"},
        {"containers": [None, "odd", 7]},
        {"containers": [{"name": "a", "command": "odd", "volumeMounts": "odd"}]},
        {"containers": [], "initContainers": "odd"},
        {"containers": [], "volumes": "odd"},
    ],
    ids=str,
)
def test_malformed_template_is_passed_to_the_api_server(spec: Json) -> None:
    """Malformed parts are passed on, and the API server reports them."""
    before = copy.deepcopy(spec)
    found = pod_spec(framework_with(spec, barrier="true"))
    assert spec == before
    for field, value in before.items():
        if value == "odd":
            assert found[field] == "odd"
    if before["containers"] == [None, "odd", 7]:
        assert found["containers"] == before["containers"]


def test_template_is_not_changed() -> None:
    framework = framework_with(barrier="true", runtime="tensorflow")
    before = copy.deepcopy(framework)
    pod_spec(framework)
    pod_spec(framework, "ps", 0)
    assert framework == before


# The wrapped command


def wrapped(container: Json, folder: Path) -> list[str]:
    """Return the command as a kubelet runs it, with the barrier's files in this folder."""
    (folder / names.CLUSTER_ENV_FILE).write_text(
        files.contents(gang_objects.gang(), "worker", 0)[names.CLUSTER_ENV_FILE], encoding="utf-8"
    )
    (given,) = pod_spec(framework_with({"containers": [{"name": "main", **container}]}, barrier="true"))[
        "containers"
    ]
    words = [*given["command"], *given.get("args", ())]
    return [word.replace(FOLDER, str(folder)) for word in words]


def test_wrapper_keeps_arguments(tmp_path: Path) -> None:
    """Arguments are passed unchanged, and the variables are set."""
    words = ["a b", "", "$HOME", "*", 'q"q', "-c", "\\"]
    show = 'printf "<%s>" "$@" "$FB_WORKER_ADDRESSES" "$FB_PS_IPS"'
    command = wrapped({"command": ["sh", "-c", show, "sh"], "args": words}, tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    assert done.stderr == ""
    assert done.stdout == "".join(f"<{word}>" for word in (*words, "10.0.0.5:2222,10.0.0.6:2222", "10.0.0.4"))


def test_wrapper_uses_the_users_port(tmp_path: Path) -> None:
    command = wrapped({"command": ["sh", "-c", "echo $FB_WORKER_ADDRESSES"]}, tmp_path)
    done = subprocess.run(  # noqa: S603
        command,
        env={"PATH": os.defpath, "FB_WORKER_PORT": "7"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "10.0.0.5:7,10.0.0.6:7\n"


@pytest.mark.parametrize("code", [0, 1, 3, 201, 255])
def test_wrapper_returns_the_exit_code(code: int, tmp_path: Path) -> None:
    command = wrapped({"command": ["sh", "-c", f"exit {code}"]}, tmp_path)
    assert subprocess.run(command, check=False, timeout=60).returncode == code  # noqa: S603


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_wrapper_forwards_signals(number: signal.Signals, tmp_path: Path) -> None:
    """The command replaces the shell and gets the signals itself."""
    run = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    command = wrapped({"command": ["python3", "-c", run]}, tmp_path)
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(number)
        assert process.wait(60) == -number
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("container", [{}, {"args": ["--flag"]}, {"command": []}, {"command": None}], ids=str)
def test_container_without_a_command_is_not_wrapped(container: Json) -> None:
    """The image's command is not known here: it only gets the files."""
    (found,) = pod_spec(framework_with({"containers": [{"name": "main", **container}]}, barrier="true"))[
        "containers"
    ]
    assert {key: found.get(key) for key in ("command", "args")} == {
        key: container.get(key) for key in ("command", "args")
    }
    assert MOUNT in found["volumeMounts"]


def test_idle_server_is_wrapped() -> None:
    (container,) = pod_spec(
        framework_with({"containers": [{"name": "a"}]}, barrier="true", runtime="tensorflow", idle="true")
    )["containers"]
    assert container["command"][-3:] == list(tf_server.COMMAND)
    assert container["command"][0] == "/bin/sh"
