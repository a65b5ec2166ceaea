"""The environment of a container: literal, expanded, and taken from elsewhere."""

from collections.abc import Callable
from typing import Any

import pytest
from pods.place import Place
from pods.seen import Seen
from pods.specs import IMAGE, config_map, container, field, pod, secret

Env = list[dict[str, Any]]


def shown(place: Place, env: Env, names: str, **fields: Any) -> list[str]:
    """Return the values of these variables in a container, one per line; `-` if unset."""
    script = "; ".join(f'printf "%s\\n" "${{{name}--}}"' for name in names.split())
    return place.start(container(script, env=env, **fields)).output()


def pairs(**values: str) -> Env:
    return [{"name": name, "value": value} for name, value in values.items()]


EXPANSIONS = {
    "literal": ([("A", "x y")], ["x y"]),
    "empty": ([("A", "")], [""]),
    "earlier": ([("A", "1"), ("B", "$(A)2")], ["1", "12"]),
    "chain": ([("A", "1"), ("B", "$(A)2"), ("C", "$(B)$(A)")], ["1", "12", "121"]),
    "later-stays": ([("A", "$(B)"), ("B", "2")], ["$(B)", "2"]),
    "unknown-stays": ([("A", "$(NOBODY)")], ["$(NOBODY)"]),
    "escaped": ([("A", "1"), ("B", "$$(A)")], ["1", "$(A)"]),
    "escaped-twice": ([("A", "1"), ("B", "$$$(A)")], ["1", "$1"]),
    "unfinished": ([("A", "1"), ("B", "$(A")], ["1", "$(A"]),
    "dollar": ([("A", "$ $5 $")], ["$ $5 $"]),
    "shell": ([("A", "${HOME} `id`")], ["${HOME} `id`"]),
    "unicode": ([("A", "größe✓")], ["größe✓"]),
}


@pytest.mark.parametrize(("env", "expected"), EXPANSIONS.values(), ids=EXPANSIONS)
def test_variables_are_expanded(place: Place, env: list[tuple[str, str]], expected: list[str]) -> None:
    given = [{"name": name, "value": value} for name, value in env]
    assert shown(place, given, " ".join(name for name, _ in env)) == expected


def test_last_of_two_variables_wins(place: Place) -> None:
    assert shown(place, [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "A") == ["2"]


def test_command_and_arguments_are_expanded(place: Place) -> None:
    script = 'printf "%s\\n" "$@"'
    command = ["sh", "-c", script, "$(NAME)"]
    args = ["$(NAME)", "$$(NAME)", "$(NOBODY)", "a$(NAME)b"]
    started = place.start(
        {"name": "main", "image": IMAGE, "command": command, "args": args, "env": pairs(NAME="it")}
    )
    assert started.output() == ["it", "$(NAME)", "$(NOBODY)", "aitb"]


def test_argument_is_not_split(place: Place) -> None:
    words = ["a b", "", "*", "'\"", "\n", "ü"]
    command = ["python3", "-c", "import sys; print(ascii(sys.argv[1:]))", *words]
    assert place.start(command).output() == [ascii(words)]


def test_working_directory_is_set(place: Place) -> None:
    assert place.start(container("pwd", workingDir="/usr/bin")).output() == ["/usr/bin"]


FIELDS: dict[str, tuple[str, Callable[[Seen], str]]] = {
    "name": ("metadata.name", lambda seen: seen.body["metadata"]["name"]),
    "namespace": ("metadata.namespace", lambda seen: seen.body["metadata"]["namespace"]),
    "uid": ("metadata.uid", lambda seen: seen.uid),
    "label": ("metadata.labels['app']", lambda _: "digits"),
    "no-such-label": ("metadata.labels['other']", lambda _: ""),
    "annotation": ("metadata.annotations['example.com/note']", lambda _: "a note"),
    "node": ("spec.nodeName", lambda seen: seen.node),
    "account": ("spec.serviceAccountName", lambda seen: seen.body["spec"].get("serviceAccountName", "")),
    "host": ("status.hostIP", lambda seen: seen.status["hostIP"]),
    "address": ("status.podIP", lambda seen: seen.address),
    "addresses": ("status.podIPs", lambda seen: seen.address),
}


def test_field_refs(place: Place) -> None:
    env = [field(name.upper().replace("-", "_"), path) for name, (path, _) in FIELDS.items()]
    metadata = {"labels": {"app": "digits"}, "annotations": {"example.com/note": "a note"}}
    script = "; ".join(f'echo "{each["name"]}=${each["name"]}"' for each in env) + "; sleep 100000 & wait"
    started = place.start(container(f"trap 'exit 0' TERM; {script}", env=env), metadata=metadata)
    seen: Seen = started.running()
    lines = started.says("ADDRESSES=").splitlines()
    expected = {name.upper().replace("-", "_"): ask(seen) for name, (_, ask) in FIELDS.items()}
    assert dict(line.split("=", 1) for line in lines) == expected


def resource(name: str, of: str, divisor: str = "") -> dict[str, Any]:
    reference = {"resource": of, **({"divisor": divisor} if divisor else {})}
    return {"name": name, "valueFrom": {"resourceFieldRef": reference}}


RESOURCES = {
    "cpu-is-rounded-up": ("limits.cpu", "", "2"),
    "cpu-in-thousandths": ("limits.cpu", "1m", "1500"),
    "requested-cpu": ("requests.cpu", "1m", "10"),
    "memory": ("limits.memory", "", str(256 * 1024**2)),
    "memory-in-mebibytes": ("limits.memory", "1Mi", "256"),
    "memory-in-megabytes-rounded-up": ("limits.memory", "1M", "269"),
    "requested-memory": ("requests.memory", "1Ki", "65536"),
}


@pytest.mark.parametrize(("of", "divisor", "expected"), RESOURCES.values(), ids=RESOURCES)
def test_resource_field_refs(place: Place, of: str, divisor: str, expected: str) -> None:
    resources = {
        "limits": {"cpu": "1500m", "memory": "256Mi"},
        "requests": {"cpu": "10m", "memory": "64Mi"},
    }
    assert shown(place, [resource("A", of, divisor)], "A", resources=resources) == [expected]


def whole_cores(quantity: str) -> int:
    """Rounded up."""
    return -(-int(quantity[:-1]) // 1000) if quantity.endswith("m") else int(quantity)


def test_missing_limit_is_allocatable_of_the_node(place: Place) -> None:
    cores, memory = shown(place, [resource("A", "limits.cpu"), resource("B", "limits.memory")], "A B")
    nodes = place.client.get("/api/v1/nodes").expect(200).body["items"]
    assert int(cores) in {whole_cores(node["status"]["allocatable"]["cpu"]) for node in nodes}
    assert int(memory) > 1024**2


def key(kind: str, name: str, of: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "valueFrom": {f"{kind}KeyRef": {"name": of, "key": key, **more}}}


def test_keys_of_config_maps_and_secrets(place: Place) -> None:
    place.create(config_map("settings", colour="blue", **{"a.dotted-key": "dots"}))
    place.create(secret("password", word="open sesame"))
    env = [
        key("configMap", "A", "settings", "colour"),
        key("configMap", "B", "settings", "a.dotted-key"),
        key("secret", "C", "password", "word"),
        *pairs(D="$(A), $(C)"),
    ]
    assert shown(place, env, "A B C D") == ["blue", "dots", "open sesame", "blue, open sesame"]


def test_optional_reference_may_be_missing(place: Place) -> None:
    place.create(config_map("settings", colour="blue"))
    env = [
        key("configMap", "A", "settings", "none", optional=True),
        key("configMap", "B", "none", "none", optional=True),
        key("secret", "C", "none", "none", optional=True),
        *pairs(D="[$(A)]"),
    ]
    sources = [
        {"configMapRef": {"name": "none", "optional": True}},
        {"secretRef": {"name": "n", "optional": True}},
    ]
    assert shown(place, env, "A B C D", envFrom=sources) == ["-", "-", "-", "[$(A)]"]


MISSING = {
    "config-map": ({"env": [key("configMap", "A", "none", "k")]}, 'configmap "none" not found'),
    "secret": ({"env": [key("secret", "A", "none", "k")]}, 'secret "none" not found'),
    "key": ({"env": [key("configMap", "A", "settings", "k")]}, "couldn't find key k in ConfigMap"),
    "secret-key": ({"env": [key("secret", "A", "password", "k")]}, "couldn't find key k in Secret"),
    "all-of-a-map": ({"envFrom": [{"configMapRef": {"name": "none"}}]}, 'configmap "none" not found'),
    "all-of-a-secret": ({"envFrom": [{"secretRef": {"name": "none"}}]}, 'secret "none" not found'),
}


@pytest.mark.parametrize(("fields", "message"), MISSING.values(), ids=MISSING)
def test_container_waits_for_a_missing_object(place: Place, fields: dict[str, Any], message: str) -> None:
    place.create(config_map("settings", colour="blue"))
    place.create(secret("password", word="open sesame"))
    started = place.start(container("true", **fields))
    seen = started.waiting("CreateContainerConfigError")
    assert seen.phase == "Pending"
    assert message in (seen.waiting() or {})["message"]
    assert "containerID" not in seen.container()
    assert message in started.event("Failed", "Error: ")["message"]


def test_container_starts_when_the_missing_object_appears(place: Place) -> None:
    started = place.start(container('echo "$A"', env=[key("configMap", "A", "late", "k")]))
    started.waiting("CreateContainerConfigError")
    place.create(config_map("late", k="better than never"))
    assert started.output() == ["better than never"]


def test_env_from(place: Place) -> None:
    place.create(config_map("settings", ONE="1", TWO="2", SHARED="map"))
    place.create(secret("password", WORD="sesame", SHARED="secret"))
    sources = [
        {"configMapRef": {"name": "settings"}},
        {"secretRef": {"name": "password"}},
        {"configMapRef": {"name": "settings"}, "prefix": "MY_"},
    ]
    env = pairs(TWO="own", BOTH="$(ONE)$(WORD)")
    found = shown(place, env, "ONE TWO SHARED WORD MY_ONE MY_SHARED BOTH", envFrom=sources)
    assert found == ["1", "own", "secret", "sesame", "1", "map", "1sesame"]


def test_service_variables_are_set(place: Place) -> None:
    ports = [{"name": "http", "port": 80}, {"name": "other-one", "port": 8080}]
    metadata = {"name": "my-web"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
    address = place.create(service)["spec"]["clusterIP"]
    names = "MY_WEB_SERVICE_HOST MY_WEB_SERVICE_PORT MY_WEB_SERVICE_PORT_OTHER_ONE MY_WEB_PORT_80_TCP_ADDR"
    started = place.start("env")
    found = dict(line.split("=", 1) for line in started.output() if "=" in line)
    assert [found.get(name) for name in names.split()] == [address, "80", "8080", address]
    assert found["MY_WEB_PORT"] == f"tcp://{address}:80"


def test_service_links_can_be_disabled(place: Place) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}]},
    }
    place.create(service)
    started = place.start("env", enableServiceLinks=False)
    names = {line.partition("=")[0] for line in started.output()}
    assert "WEB_SERVICE_HOST" not in names
    assert {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "PATH", "HOSTNAME"} <= names


def test_invalid_reference_is_rejected_by_the_api_server(place: Place) -> None:
    body = pod("bad", container("true", env=[field("A", "spec.containers")]))
    assert place.client.post(place.path("pods"), body).code == 422
