"""Start a real Kubernetes API server for tests, on free loopback ports.

    python tools/kubernetes_api.py             start one, print how to use it, and run until Ctrl-C
    python tools/kubernetes_api.py --check     start one, write and read an object, print the versions, and exit

    with kubernetes_api.serve() as api:        the same in a test: api.kubeconfig, api.url, api.token, api.version

It consists of etcd, kube-apiserver, and kube-controller-manager with the controllers that finish deletions (garbage
collector and namespaces; the collector takes up to half a minute to discover a new custom resource). There is no
scheduler and no kubelet, so no pod runs. With KUBECONFIG that cluster is used and nothing is started.

Everything ends with the `with` block or with this process; nothing is kept. For tests only: etcd has no authentication,
and other users of the machine can reach it.
"""

import argparse
import base64
import contextlib
import dataclasses
import functools
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import kubernetes_binaries  # next to this file
import programs  # next to this file

ATTEMPTS: Final = 3
"""Another process may take a free port before the program binds it: then the start is repeated on other ports."""

ADMIN: Final = "admin"
MASTERS: Final = "system:masters"
CONTROLLERS: Final = "controllers"
MANAGER: Final = "kube-controller-manager"
LAST_WITH_AN_INSECURE_PORT: Final = 23
"""Up to this minor version kube-controller-manager opens a second, fixed port by default."""

AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclasses.dataclass(frozen=True)
class User:
    token: str
    kubeconfig: Path


@dataclasses.dataclass(frozen=True)
class Api:
    """A running API server."""

    kubeconfig: Path
    url: str
    version: str
    """The version as in /version: v1.20.2."""

    token: str | None
    """None if the cluster of KUBECONFIG uses another authentication."""

    kubectls: tuple[Path, ...]
    """Every kubectl to test with, oldest first."""

    users: Mapping[str, User] = dataclasses.field(default_factory=dict)
    """Users by name, including the administrator. Empty for the cluster of KUBECONFIG, like the following fields."""

    audit_log: Path | None = None
    """The audit log with one JSON line per request, if `audit` was requested."""

    etcd_url: str | None = None
    binaries: Path | None = None


@dataclasses.dataclass(frozen=True)
class _Start:
    """The options of a start."""

    binaries: Path
    users: Mapping[str, str]
    durable: bool
    audit: bool


@contextlib.contextmanager
def serve(
    *,
    users: Mapping[str, str] | None = None,
    durable: bool = False,
    audit: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Api]:
    """Run an API server for a `with` block.

    `users` are additional clients and their groups (system:masters may do everything), which the audit log
    distinguishes. With `durable` etcd syncs each write to disk.
    """
    if named := environment.get("KUBECONFIG"):
        yield _of_cluster(named)
        return
    with programs.cleaning_up_on_sigterm(), contextlib.ExitStack() as stack:
        binaries = kubernetes_binaries.ensure(environment)
        yield _first_to_start(stack, _Start(binaries, users or {}, durable, audit))


def _first_to_start(stack: contextlib.ExitStack, start: _Start) -> Api:
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(programs.PortTakenError):
            return stack.enter_context(_served(start))
    return stack.enter_context(_served(start))


def _of_cluster(named: str) -> Api:
    import urllib3.exceptions  # slow to import, and only needed here
    from kubernetes import client, config

    path = Path(named)
    if not path.is_file():
        raise programs.StartError(f"KUBECONFIG={named} is not a single file. Unset it to start a server.")
    try:
        connection = config.new_client_from_config(config_file=str(path))  # type: ignore[no-untyped-call]
        version = client.VersionApi(connection).get_code().git_version
    except (config.ConfigException, client.ApiException, urllib3.exceptions.HTTPError) as error:
        raise programs.StartError(f"The cluster of KUBECONFIG ({named}) does not respond: {error}") from error
    header = connection.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    kubectl = shutil.which("kubectl")
    return Api(
        kubeconfig=path.absolute(),
        url=connection.configuration.host,
        version=version,
        token=header.removeprefix("Bearer ") if header else None,
        kubectls=(Path(kubectl),) if kubectl else (),
    )


# Programs


@contextlib.contextmanager
def _served(start: _Start) -> Iterator[Api]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-kubernetes-")))
        etcd_port, peer_port, api_port, manager_port = programs.free_ports(4)
        etcd_url, url = f"http://127.0.0.1:{etcd_port}", f"https://127.0.0.1:{api_port}"

        etcd = stack.enter_context(programs.running(_etcd(start, folder, etcd_url, peer_port)))
        etcd.wait_until(lambda: answer(f"{etcd_url}/health"))

        groups = {ADMIN: MASTERS, CONTROLLERS: MASTERS, **start.users}
        users = {name: User(secrets.token_hex(16), folder / f"{name}.kubeconfig") for name in groups}
        _write_private(folder / "tokens.csv", _token_file(users, groups))
        server = stack.enter_context(programs.running(_api_server(start, folder, etcd_url, api_port)))
        certificate = server.wait_until(lambda: _certificate(folder / "certificates"))
        context = ssl.create_default_context(cadata=certificate)
        ask = functools.partial(answer, token=users[ADMIN].token, context=context)
        server.wait_until(lambda: ask(f"{url}/readyz"))
        server.wait_until(lambda: ask(f"{url}/api/v1/namespaces/default"))
        version = json.loads(server.wait_until(lambda: ask(f"{url}/version")))

        for name, user in users.items():
            _write_private(user.kubeconfig, kubeconfig(url, certificate, name, user.token))
        api = Api(
            kubeconfig=users[ADMIN].kubeconfig,
            url=url,
            version=version["gitVersion"],
            token=users[ADMIN].token,
            kubectls=kubernetes_binaries.kubectls(start.binaries),
            users=users,
            audit_log=folder / "audit.log" if start.audit else None,
            etcd_url=etcd_url,
            binaries=start.binaries,
        )
        if (start.binaries / MANAGER).exists():
            stack.enter_context(controllers(api, CONTROLLERS, "garbagecollector,namespace", manager_port))
        yield api


@contextlib.contextmanager
def controllers(api: Api, user: str, which: str, port: int) -> Iterator[programs.Running]:
    """Run the Kubernetes controllers as that user until the end of the block. The cluster of KUBECONFIG already has
    them."""
    if api.binaries is None:
        raise programs.StartError("The cluster of KUBECONFIG has its own controllers.")
    program = _controller_manager(api.binaries, api.users[user], api.version, port, which)
    with programs.running(program) as manager:
        _wait_for_controllers(manager, port)
        yield manager


def _etcd(start: _Start, folder: Path, url: str, peer_port: int) -> programs.Program:
    peer = f"http://127.0.0.1:{peer_port}"
    arguments = [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--logger=zap",
    ]
    return programs.Program(
        start.binaries / "etcd", [*arguments, *([] if start.durable else ["--unsafe-no-fsync"])], folder
    )


def _api_server(start: _Start, folder: Path, etcd_url: str, port: int) -> programs.Program:
    key = folder / "service-accounts.key"
    _write_private(key, signing_key())
    audit = []
    if start.audit:
        (folder / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
        audit = [
            f"--audit-policy-file={folder / 'audit-policy.json'}",
            f"--audit-log-path={folder / 'audit.log'}",
        ]
    arguments = [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",  # the folder of its self-signed certificate
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",  # a loopback address is not allowed in Endpoints
        "--allow-privileged=true",
        "--disable-admission-plugins=ServiceAccount",  # admit pods without service accounts
    ]
    return programs.Program(start.binaries / "kube-apiserver", [*arguments, *audit], folder)


def _controller_manager(binaries: Path, user: User, version: str, port: int, which: str) -> programs.Program:
    folder = user.kubeconfig.parent / f"controllers-{user.kubeconfig.stem}"
    folder.mkdir(exist_ok=True)
    arguments = [
        f"--kubeconfig={user.kubeconfig}",
        f"--controllers={which}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
    ]
    arguments += flags_against_insecure_port(kubernetes_binaries.minor_of(version))
    return programs.Program(binaries / MANAGER, arguments, folder)


def flags_against_insecure_port(minor: int) -> list[str]:
    return ["--port=0"] if minor <= LAST_WITH_AN_INSECURE_PORT else []


def _wait_for_controllers(manager: programs.Running, port: int) -> None:
    # Its certificate is self-signed, and the request contains no secret.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    manager.wait_until(lambda: answer(f"https://127.0.0.1:{port}/healthz", None, context))


def kubeconfig(url: str, certificate: str, user: str, token: str) -> str:
    """Write a kubeconfig of that user. It is JSON, which is valid YAML."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(certificate.encode()).decode()}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "windlass", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "windlass", "context": {"cluster": "windlass", "user": user}}],
        "current-context": "windlass",
    }
    return json.dumps(config, indent=2) + "\n"


def _token_file(users: Mapping[str, User], groups: Mapping[str, str]) -> str:
    return "".join(f'{user.token},{name},{name},"{groups[name]}"\n' for name, user in users.items())


def signing_key() -> str:
    """Return the key that signs service account tokens."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return key.decode()


def answer(url: str, token: str | None = None, context: ssl.SSLContext | None = None) -> bytes | None:
    """Return the body of a successful response; None without one."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    handlers = [urllib.request.ProxyHandler({})]
    https = [urllib.request.HTTPSHandler(context=context)] if context else []
    try:
        with urllib.request.build_opener(*handlers, *https).open(request, timeout=10) as response:
            body: bytes = response.read()
            return body
    except (OSError, urllib.error.URLError):
        return None


def _certificate(folder: Path) -> str | None:
    """Return the server's certificate and its CA. The key is written last, so they are complete once it exists."""
    return (folder / "apiserver.crt").read_text() if (folder / "apiserver.key").exists() else None


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


# Command


def check(api: Api) -> None:
    """Write, read and delete an object, and print all versions."""
    from kubernetes import client, config

    connection = config.new_client_from_config(config_file=str(api.kubeconfig))  # type: ignore[no-untyped-call]
    core = client.CoreV1Api(connection)
    name, data = f"windlass-check-{secrets.token_hex(4)}", {"greeting": "hello"}
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)
    core.create_namespaced_config_map("default", body)
    found = core.read_namespaced_config_map(name, "default").data
    core.delete_namespaced_config_map(name, "default")
    if found != data:
        raise programs.StartError(f"{api.url} stored {data} as {found}.")
    print(f"Kubernetes {api.version} at {api.url} creates, reads and deletes objects.")
    for kubectl in api.kubectls:
        print(f"{kubectl}: {_version_of(kubectl)}")


def _version_of(kubectl: Path) -> str:
    command = [str(kubectl), "version", "--client", "--output=json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    version: str = json.loads(answer.stdout)["clientVersion"]["gitVersion"]
    return version


def main() -> int:
    parser = argparse.ArgumentParser(description="Start a real Kubernetes API server for tests.")
    parser.add_argument("--check", action="store_true", help="check it, print the versions, and exit")
    arguments = parser.parse_args()
    try:
        with serve() as api:
            if arguments.check:
                check(api)
                return 0
            what = f"Kubernetes {api.version} at {api.url}; Ctrl-C ends it"
            print(f"export KUBECONFIG={api.kubeconfig}  # {what}", flush=True)
            signal.pause()
    except (programs.StartError, kubernetes_binaries.BinariesError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
