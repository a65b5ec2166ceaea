"""Reads kubeconfig files and the service account of a pod, and runs credential plugins, like kubectl."""

import asyncio
import base64
import contextlib
import json
import logging
import os
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from windlass.kubeapi.credentials import ClusterConfig, Headers, Tls
from windlass.kubeapi.errors import AccessError
from windlass.kubeapi.kubeconfig_files import Entry, Merged, Origin

logger = logging.getLogger(__name__)

TOKEN_FILE_INTERVAL_SEC = 60.0
"""Interval at which a token file is read again, as in kubectl and in-cluster clients."""
MIN_RENEWAL_INTERVAL_SEC = 10.0
"""Minimum interval between renewals, in case new credentials are about to expire."""
_OIDC = "oidc"
PLUGIN_TIMEOUT_SEC = 300.0
"""Timeout for credentials; long because a plugin may wait until the user has logged in with a browser."""


async def from_files(paths: str, context: str) -> ClusterConfig:
    """Return the configuration of the context. `paths` are separated by colons, as in $KUBECONFIG."""
    where = paths
    try:
        # A large file takes long to parse and must not block the event loop.
        merged = await asyncio.to_thread(_merged, paths)
        chosen = _chosen_context(merged, context)
        where = _visible(f"{paths} (context {chosen})")
        async with asyncio.timeout(PLUGIN_TIMEOUT_SEC):
            return await _Loader(merged, chosen).load(where)
    except TimeoutError as error:
        raise AccessError(f"{where}: no credentials within {PLUGIN_TIMEOUT_SEC:g} s") from error
    except Exception as error:
        # Values of the wrong type raise all kinds of exceptions.
        raise AccessError(f"{where}: {_explained(error)}") from error


def in_cluster(environment: Mapping[str, str], folder: Path) -> ClusterConfig:
    try:
        host, port = (_required(environment, f"KUBERNETES_SERVICE_{each}") for each in ("HOST", "PORT"))
        token, authority = (_not_empty(folder / name) for name in ("token", "ca.crt"))
    except (AccessError, OSError) as error:
        raise AccessError(
            f"cannot use the service account of this pod in {folder}: {_explained(error)}. "
            "Remove automountServiceAccountToken: false from the pod, or specify a kubeconfig."
        ) from error
    namespace = folder / "namespace"
    return ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        source=str(folder),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        headers=(("Authorization", f"Bearer {token.decode().strip()}"),),
        tls=Tls(authority=authority),
        # Both files are rotated.
        renew_after=TOKEN_FILE_INTERVAL_SEC,
    )


def _not_empty(path: Path) -> bytes:
    content = path.read_bytes()
    if not content.strip():
        raise AccessError(f"{path} is empty")
    return content


def _merged(paths: str) -> Merged:
    """Merge the files that exist and are not empty, e.g. not /dev/null."""
    files = [str(Path(path).expanduser()) for path in paths.split(os.pathsep) if path]
    present = [path for path in files if Path(path).exists() and Path(path).stat().st_size > 0]
    if not present:
        raise AccessError("no such file, or it is empty. Specify an existing kubeconfig.")
    return Merged(present)


def _chosen_context(merged: Merged, context: str) -> str:
    """Return `context` or, if it is empty, the current context."""
    chosen = context or merged.current_context
    if merged.context(chosen) is None:
        problem = f"no such context: {chosen!r}" if chosen else "no current context is set"
        raise AccessError(f"{problem}. Choose one of: {', '.join(merged.context_names) or '(none)'}.")
    return str(chosen)


class _Loader:
    """Loads the credentials of a context. The order of the sources is that of kubectl."""

    def __init__(self, merged: Merged, context: str) -> None:
        self._merged = merged
        found = merged.context(context)
        assert found is not None  # noqa: S101 — checked by the caller
        self._context = found.value
        cluster = self._context.get("cluster")
        if (known := merged.cluster(cluster or "")) is None:
            raise AccessError(f"the context refers to cluster {cluster!r}, which does not exist")
        self._cluster = known
        self._user = self._find_user()
        self._origin = merged.origins.get(self._user.path, Origin(owner=0, distrust=""))
        distrust = merged.origins[self._cluster.path].distrust
        if distrust and self._user.path not in ("", self._cluster.path):
            raise AccessError(
                f"not sending the credentials in {self._user.path} to the server in {self._cluster.path}, "
                f"because {self._cluster.path} {distrust}"
            )
        self._plugin_status: dict[str, Any] = {}
        self._expires_at: datetime | None = None

    async def load(self, source: str) -> ClusterConfig:
        authorization = await self._authorization()
        config = ClusterConfig(
            server=_required(self._cluster.value, "server").rstrip("/"),
            source=source,
            namespace=self._context.get("namespace") or "default",
            proxy=self._proxy(),
        )
        if not config.server.startswith("https://"):
            return config  # credentials are not sent without TLS, as in kubectl
        # A token file may end with a newline, which is not allowed in a header.
        headers = (("Authorization", authorization.strip()),) if authorization else ()
        return msgspec.structs.replace(
            config,
            headers=(*headers, *_impersonation(self._user.value)),
            tls=self._tls(),
            may_use_environment_proxy=True,
            renew_after=self._renew_after(),
        )

    def _find_user(self) -> Entry:
        """Return the user of the context, which may have none."""
        name = self._context.get("user")
        if not name:
            return Entry("", {}, "")
        if (user := self._merged.user(name)) is None:
            raise AccessError(f"the context refers to user {name!r}, which does not exist")
        provider = (user.value.get("auth-provider") or {}).get("name")
        if provider not in (None, _OIDC):
            raise AccessError(
                f"auth-provider {provider!r} is not supported, as in kubectl. Replace it with a credential "
                "plugin (exec), e.g. gke-gcloud-auth-plugin or kubelogin."
            )
        return user

    async def _authorization(self) -> str:
        """Return the value of the header; empty if there is none. Prefer tokenFile to token, as in kubectl."""
        user = self._user.value
        if (user.get("auth-provider") or {}).get("name"):
            return f"Bearer {await self._oidc_token(user['auth-provider'])}"
        if user.get("exec"):
            return await self._run_plugin(user["exec"])
        token = _content(user, "tokenFile", _folder(self._user), self._origin).decode() or user.get("token")
        if token:
            return f"Bearer {token}"
        if "username" in user and "password" in user:
            password = f"{user['username']}:{user['password']}"
            return f"Basic {base64.b64encode(password.encode()).decode()}"
        return ""

    def _tls(self) -> Tls:
        cluster, user = self._cluster.value, self._user.value
        status = self._plugin_status
        if "clientCertificateData" in status:
            certificate = status["clientCertificateData"].encode()
            key = _required(status, "clientKeyData").encode()
        else:
            certificate = _content(user, "client-certificate", _folder(self._user), self._origin)
            key = _content(user, "client-key", _folder(self._user), self._origin)
        return Tls(
            authority=_content(cluster, "certificate-authority", _folder(self._cluster)),
            certificate=certificate,
            key=key,
            verifies_server=not cluster.get("insecure-skip-tls-verify", False),
            server_name=cluster.get("tls-server-name") or "",
        )

    def _proxy(self) -> str:
        proxy = self._cluster.value.get("proxy-url") or ""
        if proxy and not proxy.startswith(("http://", "https://")):
            raise AccessError(f"proxy-url {proxy!r}: only http:// and https:// proxies are supported")
        return str(proxy)

    def _renew_after(self) -> float | None:
        if self._expires_at is not None:
            # The credentials are renewed before they expire, so that running requests do not fail.
            lifetime = (self._expires_at - datetime.now(UTC)).total_seconds()
            return max(MIN_RENEWAL_INTERVAL_SEC, 0.8 * lifetime)
        return TOKEN_FILE_INTERVAL_SEC if self._user.value.get("tokenFile") else None

    async def _run_plugin(self, plugin: Mapping[str, Any]) -> str:
        command, arguments = _required(plugin, "command"), map(str, plugin.get("args") or ())
        if os.sep in command:  # relative to the kubeconfig, as in kubectl
            command = str(Path(_folder(self._user), command))
        words = [command, *arguments]
        command_line = _command_line(plugin, words)
        if distrust := self._origin.distrust:
            raise AccessError(
                f"not running the credential plugin, because this file {distrust}. It would run: {command_line}"
            )
        logger.info("running the credential plugin: %s", command_line)
        status = await _plugin_status(plugin, words)
        if not status.get("token") and not status.get("clientCertificateData"):
            raise AccessError(
                f"the credential plugin {command!r} returned neither a token nor a client certificate"
            )
        if status.get("expirationTimestamp"):
            expires_at = datetime.fromisoformat(status["expirationTimestamp"])
            self._expires_at = expires_at if expires_at.tzinfo else expires_at.replace(tzinfo=UTC)
        self._plugin_status = status
        return f"Bearer {status['token']}" if status.get("token") else ""

    async def _oidc_token(self, provider: dict[str, Any]) -> str:
        from windlass.kubeapi import oidc  # needs an HTTP client

        config = provider.get("config") or {}
        token = config.get("id-token") or ""
        if not token or oidc.expiry_of(token) <= datetime.now(UTC):
            authority = _content(config, "idp-certificate-authority", _folder(self._user))
            refreshed = await oidc.refresh(
                oidc.Client(
                    id=str(_required(config, "client-id")),
                    secret=config.get("client-secret") or "",
                    issuer=str(_required(config, "idp-issuer-url")),
                    authority=authority.decode(),
                ),
                str(_required(config, "refresh-token")),
            )
            token = config["id-token"] = refreshed.id_token
            # Providers that rotate refresh tokens accept each token only once, so the new one must be stored.
            config["refresh-token"] = refreshed.refresh_token or config["refresh-token"]
            with contextlib.suppress(OSError):  # a kubeconfig may be mounted read-only
                self._merged.save(self._user.path)
        self._expires_at = oidc.expiry_of(token)
        return str(token)


def _folder(entry: Entry) -> Path:
    """Return the folder that the paths of an entry are relative to."""
    return Path(entry.path).absolute().parent


def _required(values: Mapping[str, Any], name: str) -> Any:
    if not values.get(name):
        raise AccessError(f"{name} is missing")
    return values[name]


def _content(values: Mapping[str, Any], name: str, base: Path, origin: Origin | None = None) -> bytes:
    """Return the content of a field, or of the file that it names. `origin` is given for credentials, and may forbid
    to send the file."""
    data = values.get(f"{name}-data")
    if data:
        try:
            return base64.b64decode("".join(str(data).split()), validate=True)
        except ValueError as error:
            raise AccessError(f"{name}-data is not base64: {error}") from error
    path = values.get(name)
    if not path:
        return b""
    with Path(base, path).open("rb") as file:
        if origin is not None and origin.is_private(os.fstat(file.fileno())):
            raise AccessError(
                f"not sending the {name} {file.name} to the server, because this kubeconfig {origin.distrust}"
            )
        return file.read()


def _impersonation(user: Mapping[str, Any]) -> Headers:
    """Return the headers without which the request would have all permissions of the user."""
    if not user.get("as"):
        return ()
    single = [("Impersonate-User", user["as"]), ("Impersonate-Uid", user.get("as-uid") or "")]
    groups = [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
    extra = [
        (f"Impersonate-Extra-{name}", value)
        for name, values in (user.get("as-user-extra") or {}).items()
        for value in values
    ]
    return tuple((name, str(value)) for name, value in (*single, *groups, *extra) if value)


def _command_line(plugin: Mapping[str, Any], words: list[str]) -> str:
    """Format the command of a plugin for messages, with the names of its variables. Escape control characters."""
    names = [f"{variable['name']}=…" for variable in plugin.get("env") or ()]
    return _visible(" ".join((*names, shlex.join(words))))


def _visible(text: str) -> str:
    """Escape control characters, with which a file could hide a part of the message on a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


async def _plugin_status(plugin: Mapping[str, Any], words: list[str]) -> dict[str, Any]:
    """Run a credential plugin and return the status of the ExecCredential that it prints."""
    version = _required(plugin, "apiVersion")
    request = {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": sys.stdout.isatty()},
    }
    variables = {str(each["name"]): str(each["value"]) for each in plugin.get("env") or ()}
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
    except OSError as error:
        hint = " ".join(str(plugin.get("installHint") or "").split())
        problem = f"cannot run the credential plugin {words[0]!r}: {error.strerror}. {hint}"
        raise AccessError(problem.strip()) from error
    problem = f"the credential plugin {words[0]!r} failed"
    if process.returncode:
        reason = errors.decode(errors="replace").strip()
        raise AccessError(f"{problem}: it exited with code {process.returncode}. {reason}".strip())
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.MsgspecError, ValueError) as error:
        raise AccessError(f"{problem}: its output is not an ExecCredential: {error}") from error
    if answer.apiVersion != version:
        raise AccessError(f"{problem}: it returned version {answer.apiVersion!r}, expected {version!r}")
    return answer.status


class _ExecCredential(msgspec.Struct, frozen=True):
    apiVersion: str  # noqa: N815 — the name of the field in Kubernetes
    kind: str
    status: dict[str, Any]


def _explained(error: Exception) -> str:
    """Return a message of one line."""
    if isinstance(error, OSError):
        return _visible(f"cannot read {error.filename or 'the file'}: {error.strerror or error}")
    message = _visible(" ".join(str(error).split()))
    is_sentence = isinstance(error, AccessError)
    return message if is_sentence else f"invalid kubeconfig ({type(error).__name__}: {message})"
