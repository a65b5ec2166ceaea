"""The original operators, started against an API server with their definitions and webhooks.

Webhooks are registered by URL with a certificate made here. The training operator reads its certificate from a fixed
folder, and the mpi-operator listens on a fixed port: one run per machine at a time.
"""

import base64
import contextlib
import datetime
import fcntl
import ipaddress
import os
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

import go_programs
import kubernetes_api
import programs
from conformance.client import Access, Client, Json
from conformance.waiting import wait_for
from go_programs import Program
from kubernetes_api import Api

MASTERS: Final = "system:masters"
CONTROLLERS: Final = ("job-controller", "ttl-after-finished-controller")
JOB_CONTROLLERS: Final = "jobs"
"""The user of the Job controller."""

WEBHOOK_FOLDER: Final = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 (compiled into the operator)
NAMESPACE: Final = "kubeflow"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
OPERATORS: Final[Mapping[str, Program | None]] = {
    "Job": None,
    "TFJob": go_programs.TRAINING_OPERATOR,
    "PyTorchJob": go_programs.TRAINING_OPERATOR,
    "MPIJob": go_programs.MPI_OPERATOR,
    "JobSet": go_programs.JOBSET,
}


@contextlib.contextmanager
def served(kinds: Iterable[str]) -> Iterator[Api]:
    """Run an API server, the Job controller, and the operators of these kinds."""
    operators = {operator.name: operator for kind in kinds if (operator := OPERATORS[kind]) is not None}
    paths = {name: go_programs.ensure(operator) for name, operator in operators.items()}
    users = {JOB_CONTROLLERS: MASTERS, **dict.fromkeys(operators, MASTERS)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(_alone())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-operators-")))
        api = stack.enter_context(kubernetes_api.serve(users=users))
        (port,) = programs.free_ports(1)
        which = ",".join(CONTROLLERS)
        stack.enter_context(kubernetes_api.controllers(api, JOB_CONTROLLERS, which, port))
        client = Client(Access.of_kubeconfig(api.kubeconfig))
        client.post("/api/v1/namespaces", _named("v1", "Namespace", NAMESPACE)).expect(201)
        for name, operator in operators.items():
            start = _Start(client, operator, paths[name], folder / name, api.users[name].kubeconfig)
            stack.enter_context(start.running())
        yield api


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other run on this machine uses the fixed folder and port."""
    path = Path(tempfile.gettempdir()) / "windlass-operators.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Start:
    """One operator to start."""

    def __init__(self, client: Client, operator: Program, path: Path, folder: Path, kubeconfig: Path) -> None:
        self._client = client
        self._operator = operator
        self._path = path
        self._folder = folder
        self._kubeconfig = kubeconfig
        folder.mkdir()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        hooks = []
        for file in go_programs.definitions(self._operator):
            for document in yaml.safe_load_all(file.read_text()):
                kind = (document or {}).get("kind", "")
                if kind == "CustomResourceDefinition" and not self._is_left_out(document):
                    self._client.post(DEFINITIONS, document).expect(201)
                    wait_for(f"{document['metadata']['name']} to be served", self._is_served(document))
                elif kind.endswith("WebhookConfiguration"):
                    hooks.append(document)
        match self._operator.name:
            case "training-operator":
                with self._training_operator(hooks):
                    yield
            case "mpi-operator":
                with self._mpi_operator():
                    yield
            case _:
                with self._jobset(hooks):
                    yield

    def _is_left_out(self, definition: Json) -> bool:
        """Return whether this is the older MPIJob of the training operator: it has the name of the mpi-operator's."""
        is_old = self._operator is go_programs.TRAINING_OPERATOR
        return is_old and definition["spec"]["names"]["kind"] == "MPIJob"

    def _is_served(self, definition: Json) -> Callable[[], bool]:
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        return lambda: self._client.get(path).code == 200

    @contextlib.contextmanager
    def _training_operator(self, hooks: list[Json]) -> Iterator[None]:
        webhook, metrics, health = programs.free_ports(3)
        certificate = Certificate(f"training-operator.{NAMESPACE}.svc")
        secret = {
            **_named("v1", "Secret", "training-operator-webhook-cert"),
            "data": {name: _base64(text) for name, text in certificate.files.items()},
        }
        self._client.post(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret).expect(201)
        self._register(hooks, "validator.training-operator.kubeflow.org", webhook, certificate)
        schemes = [f"--enable-scheme={kind}" for kind in ("tfjob", "pytorchjob")]
        arguments = [
            *schemes,
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            f"--health-probe-bind-address=127.0.0.1:{health}",
            f"--webhook-server-port={webhook}",
            "--controller-threads=4",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
        ]
        with _written(WEBHOOK_FOLDER, certificate), self._run(arguments, {}, health):
            yield

    @contextlib.contextmanager
    def _mpi_operator(self) -> Iterator[None]:
        arguments = [
            f"--lock-namespace={NAMESPACE}",
            "--threadiness=4",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
        ]
        program = programs.Program(self._path, arguments, self._folder)
        with _environment({"KUBECONFIG": str(self._kubeconfig)}), _restarted(program):
            lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/mpi-operator"
            wait_for("the mpi-operator to lead", lambda: self._client.get(lease).code == 200)
            yield

    @contextlib.contextmanager
    def _jobset(self, hooks: list[Json]) -> Iterator[None]:
        webhook, health = programs.free_ports(2)
        certificate = Certificate("jobset-webhook-service.jobset-system.svc")
        for document in hooks:
            name = "jobset-" + document["metadata"]["name"]
            self._register([document], name, webhook, certificate)
        configuration = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": {"port": webhook, "host": "127.0.0.1"},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "clientConnection": {"qps": 1000, "burst": 1000},
        }
        path = self._folder / "configuration.yaml"
        path.write_text(yaml.safe_dump(configuration))
        # Go's folder for temporary files contains the folder of the certificate.
        with _written(self._folder / "k8s-webhook-server" / "serving-certs", certificate):
            environment = {"TMPDIR": str(self._folder)}
            with self._run([f"--config={path}"], environment, health):
                yield

    def _register(self, hooks: list[Json], name: str, port: int, certificate: "Certificate") -> None:
        for document in hooks:
            for hook in document["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {
                    "url": f"https://127.0.0.1:{port}{path}",
                    "caBundle": _base64(certificate.files["ca.crt"]),
                }
                # Pods of other jobs, e.g. those of Windlass, are not this operator's.
                if hook["rules"][0]["resources"] == ["pods"]:
                    selector = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                    hook["objectSelector"] = {"matchExpressions": [selector]}
            plural = f"{document['kind'].lower()}s"
            body = {**document, "metadata": {"name": name}}
            body["webhooks"] = [hook for hook in body["webhooks"] if self._is_enabled(hook)]
            self._client.post(f"{WEBHOOKS}/{plural}", body).expect(201)

    @staticmethod
    def _is_enabled(hook: Json) -> bool:
        """Return whether the operator serves this hook: the training operator runs two kinds only."""
        resources = hook["rules"][0]["resources"][0]
        return resources in ("tfjobs", "pytorchjobs", "jobsets", "pods")

    @contextlib.contextmanager
    def _run(self, arguments: list[str], environment: Mapping[str, str], port: int) -> Iterator[None]:
        environment = {"KUBECONFIG": str(self._kubeconfig), **environment}
        program = programs.Program(self._path, arguments, self._folder)
        with _environment(environment), programs.running(program) as running:
            running.wait_until(lambda: _answers(f"http://127.0.0.1:{port}/readyz"))
            yield


@contextlib.contextmanager
def _restarted(program: programs.Program) -> Iterator[None]:
    """Start the program again whenever it exits, as a kubelet does. The mpi-operator exits if it cannot renew its lease
    within 5 s."""
    stopping = threading.Event()

    def keep_running() -> None:
        while not stopping.is_set():
            with programs.running(program) as running:
                while running.process.poll() is None and not stopping.wait(1):
                    pass

    thread = threading.Thread(target=keep_running)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _answers(url: str) -> bool | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            return True if response.status == 200 else None
    except OSError:
        return None


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables that a started program inherits."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _named(version: str, kind: str, name: str) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Certificates


class Certificate:
    """A certificate authority, and a server certificate of it for 127.0.0.1 and a name."""

    def __init__(self, name: str) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import rsa
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        def signed(
            subject: str,
            key: rsa.RSAPrivateKey,
            issuer: str,
            issuer_key: rsa.RSAPrivateKey,
            *,
            is_authority: bool,
        ) -> x509.Certificate:
            now = datetime.datetime.now(datetime.UTC)
            names = x509.SubjectAlternativeName(
                [x509.DNSName(subject), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            )
            usage = x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=not is_authority,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                encipher_only=False,
                decipher_only=False,
            )
            return (
                x509.CertificateBuilder()
                .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
                .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - datetime.timedelta(hours=1))
                .not_valid_after(now + datetime.timedelta(days=3650))
                .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
                .add_extension(names, critical=False)
                .add_extension(usage, critical=True)
                .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
                .sign(issuer_key, hashes.SHA256())
            )

        authority_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
        authority = signed("authority", authority_key, "authority", authority_key, is_authority=True)
        server = signed(name, key, "authority", authority_key, is_authority=False)
        self.files = {
            "ca.crt": _pem(authority),
            "ca.key": _pem_of_key(authority_key),
            "tls.crt": _pem(server),
            "tls.key": _pem_of_key(key),
        }


def _pem(certificate: "object") -> str:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM).decode()  # type: ignore[attr-defined, no-any-return]


def _pem_of_key(key: "object") -> str:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(  # type: ignore[attr-defined, no-any-return]
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


@contextlib.contextmanager
def _written(folder: Path, certificate: Certificate) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in ("tls.crt", "tls.key", "ca.crt")]
    for file in files:
        file.unlink(missing_ok=True)
        file.write_text(certificate.files[file.name])
    try:
        yield
    finally:
        for file in files:
            file.unlink(missing_ok=True)
