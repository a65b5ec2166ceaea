"""Reads kubeconfig files and the service account of a pod with kubernetes_asyncio.

Only `access` imports this module, and only to read such files, because the library takes 38 MB of memory. The library
merges files, finds contexts, runs plugins and refreshes tokens. This module overrides methods of the library that
behave differently from kubectl or are not secure.
"""

import asyncio
import base64
import contextlib
import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from kubernetes_asyncio.config import incluster_config, kube_config
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.dateutil import parse_rfc3339
from kubernetes_asyncio.config.exec_provider import ExecProvider
from kubernetes_asyncio.config.openid import OpenIDRequestor

from windlass.kubeapi.credentials import ClusterConfig, Headers, Tls
from windlass.kubeapi.errors import AccessError

TOKEN_FILE_INTERVAL_SEC = 60.0
"""Interval at which a token file is read again, as in kubectl and in-cluster clients."""
MIN_RENEWAL_INTERVAL_SEC = 10.0
"""Minimum interval between renewals, in case new credentials are about to expire."""
PLUGIN_TIMEOUT_SEC = 300.0
"""Timeout for credentials; long because a plugin may wait until the user has logged in with a browser."""


async def from_files(paths: str, context: str) -> ClusterConfig:
    """Return the configuration of the context. `paths` are separated by colons, as in $KUBECONFIG."""
    where = paths
    try:
        # A large file takes long to parse and must not block the event loop.
        merger = await asyncio.to_thread(_merged, paths)
        chosen = _chosen_context(merger, context)
        where = f"{paths} (context {chosen})"
        loader = _Loader(merger, chosen)
        async with asyncio.timeout(PLUGIN_TIMEOUT_SEC):
            await loader.load_and_set(_Target())
        return loader.cluster_config(where)
    except TimeoutError as error:
        raise AccessError(f"{where}: no credentials within {PLUGIN_TIMEOUT_SEC:g} s") from error
    except Exception as error:
        # The library may raise any exception for an invalid file.
        raise AccessError(f"{where}: {_explained(error)}") from error


def in_cluster(environment: Mapping[str, str], folder: Path) -> ClusterConfig:
    target = _Target()
    try:
        incluster_config.InClusterConfigLoader(
            token_filename=str(folder / "token"),
            cert_filename=str(folder / "ca.crt"),
            # `access` loads both the token and the certificate authority again at intervals.
            try_refresh_token=False,
            environ=dict(environment),
        ).load_and_set(target)  # type: ignore[arg-type]
        authority = Path(target.ssl_ca_cert).read_bytes()
    except (ConfigException, OSError) as error:
        raise AccessError(
            f"cannot use the service account of this pod in {folder}: {str(error).removesuffix('.')}. "
            "Remove automountServiceAccountToken: false from the pod, or specify a kubeconfig."
        ) from error
    namespace = folder / "namespace"
    return ClusterConfig(
        server=target.host,
        source=str(folder),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        headers=(("Authorization", target.api_key["BearerToken"].strip()),),
        tls=Tls(authority=authority),
        renew_after=TOKEN_FILE_INTERVAL_SEC,
    )


class _Target:
    """Receives the results of the loaders. The class of the library would change log levels globally."""

    def __init__(self) -> None:
        self.host = ""
        self.ssl_ca_cert = ""
        self.api_key: dict[str, str] = {}


def _merged(paths: str) -> kube_config.KubeConfigMerger:
    """Merge the files that exist and are not empty. The library fails for an empty file, e.g. /dev/null; kubectl
    accepts it."""
    files = [(path, Path(path).expanduser()) for path in paths.split(os.pathsep) if path]
    present = [path for path, file in files if file.exists() and file.stat().st_size > 0]
    if not present:
        raise AccessError("no such file, or it is empty. Specify an existing kubeconfig.")
    return kube_config.KubeConfigMerger(os.pathsep.join(present))


def _chosen_context(merger: kube_config.KubeConfigMerger, context: str) -> str:
    """Return `context` or, if it is empty, the current context of the first file that sets one, as in kubectl. The
    library uses the last file."""
    assert merger.config is not None  # noqa: S101 — at least one file was read
    names = [node["name"] for node in merger.config.value["contexts"]]
    current = [file.get("current-context") for file in merger.config_files.values()]
    chosen = context or next((name for name in current if name), "")
    if chosen not in names:
        problem = f"no such context: {chosen!r}" if chosen else "no current context is set"
        raise AccessError(f"{problem}. Choose one of: {', '.join(names) or '(none)'}.")
    return str(chosen)


class _Loader(kube_config.KubeConfigLoader):
    # Not None after a context is chosen, contrary to the types of the library.
    _config: Any
    _cluster: Any
    _user: Any
    host: str

    def __init__(self, merger: kube_config.KubeConfigMerger, context: str) -> None:
        super().__init__(merger.config, context, config_base_path=None)
        # The library passes an argument to a save method without parameters.
        self._config_persister = lambda _config: _save(merger)
        self._context = self._config["contexts"].get_with_name(context)["context"].value
        user = self._context.get("user")
        if user and self._user is None:
            raise AccessError(f"the context refers to user {user!r}, which does not exist")
        # The library fails for a context without a user.
        self._user = self._user or kube_config.ConfigNode("users", {})
        self._plugin_status: dict[str, Any] = {}
        self._expires_at: datetime | None = None
        self._tls: Tls | None = None

    def cluster_config(self, source: str) -> ClusterConfig:
        config = ClusterConfig(
            server=self.host,
            source=source,
            namespace=self._context.get("namespace") or "default",
            proxy=self._proxy(),
        )
        if self._tls is None:
            return config  # credentials are not sent without TLS, as in kubectl
        # A token file may end with a newline, which is not allowed in a header.
        token = getattr(self, "token", "").strip()
        authorization = (("Authorization", token),) if token else ()
        return msgspec.structs.replace(
            config,
            headers=(*authorization, *_impersonation(self._user.value)),
            tls=self._tls,
            may_use_environment_proxy=True,
            renew_after=self._renew_after(),
        )

    def _proxy(self) -> str:
        proxy = self._cluster.value.get("proxy-url") or ""
        if proxy and not proxy.startswith(("http://", "https://")):
            raise AccessError(f"proxy-url {proxy!r}: only http:// and https:// proxies are supported")
        return proxy

    def _renew_after(self) -> float | None:
        if self._expires_at is not None:
            # The credentials are renewed before they expire, so that running requests do not fail.
            lifetime = (self._expires_at - datetime.now(UTC)).total_seconds()
            return max(MIN_RENEWAL_INTERVAL_SEC, 0.8 * lifetime)
        return TOKEN_FILE_INTERVAL_SEC if self._user.value.get("tokenFile") else None

    def _load_cluster_info(self) -> None:
        """Override: the library writes keys into temporary files, which remain if the process is killed."""
        cluster, user = self._cluster.value, self._user.value
        self.host = str(self._cluster["server"]).rstrip("/")
        if not self.host.startswith("https://"):
            return
        status = self._plugin_status
        base = self._get_base_path(self._user.path)
        if "clientCertificateData" in status:
            certificate, key = status["clientCertificateData"].encode(), status["clientKeyData"].encode()
        else:
            certificate, key = _content(user, "client-certificate", base), _content(user, "client-key", base)
        self._tls = Tls(
            authority=_content(cluster, "certificate-authority", self._get_base_path(self._cluster.path)),
            certificate=certificate,
            key=key,
            verifies_server=not cluster.get("insecure-skip-tls-verify", False),
            server_name=cluster.get("tls-server-name") or "",
        )

    def _load_user_token(self) -> bool:
        """Override: prefer tokenFile to token, as in kubectl; the library prefers the token."""
        user = self._user.value
        if user.get("tokenFile") and "token" in user:
            rest = {name: value for name, value in user.items() if name != "token"}
            self._user = kube_config.ConfigNode(self._user.name, rest, self._user.path)
        return bool(super()._load_user_token())

    async def load_from_exec_plugin(self) -> bool:
        """Override: the library ignores the expiration of a certificate, and a certificate returned with a token."""
        exec_node = self._user["exec"]
        provider = ExecProvider(exec_node)
        command, *arguments = provider.args
        if os.sep in command:  # relative to the kubeconfig, as in kubectl
            command = str(Path(self._get_base_path(self._user.path), command))
        provider.args = [command, *map(str, arguments)]
        status = await _run_plugin(provider, exec_node.value.get("installHint") or "")
        if not status.get("token") and not status.get("clientCertificateData"):
            raise AccessError(
                f"the credential plugin {provider.args[0]!r} returned neither a token nor a client certificate"
            )
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        if status.get("expirationTimestamp"):
            self._expires_at = parse_rfc3339(status["expirationTimestamp"])
        self._plugin_status = status
        return True

    async def _load_oid_token(self) -> str:
        """Override: the library uses the wrong base64 alphabet to decode a token."""
        config = self._user["auth-provider"]["config"]
        token = config.safe_get("id-token") or ""
        if not token or _expiry_of(token) <= datetime.now(UTC):
            await self._refresh_oidc(self._user["auth-provider"])
            token = config["id-token"]
        self._expires_at = _expiry_of(token)
        self.token = f"Bearer {token}"
        return self.token

    async def _refresh_oidc(self, provider: Any) -> None:
        """Override: the library sends the refresh token without verifying the server."""
        node = provider["config"]
        config = node.value
        authority = _content(config, "idp-certificate-authority", self._get_base_path(self._user.path))
        requestor = OpenIDRequestor(
            str(node["client-id"]),
            config.get("client-secret") or "",
            str(node["idp-issuer-url"]),
            ssl.create_default_context(cadata=authority.decode() or None),
        )
        try:
            answer = await requestor.refresh_token(str(node["refresh-token"]))
        except OSError as error:
            issuer = node["idp-issuer-url"]
            raise AccessError(f"cannot refresh the token at {issuer}: {str(error) or 'timed out'}") from error
        config["id-token"] = answer["id_token"]
        # Providers that rotate refresh tokens accept each token only once, so the new one must be stored.
        config["refresh-token"] = answer.get("refresh_token") or config["refresh-token"]
        self._config_persister(None)


def _save(merger: kube_config.KubeConfigMerger) -> None:
    # A kubeconfig may be mounted read-only.
    with contextlib.suppress(OSError):
        merger.save_changes()


def _content(values: Mapping[str, Any], name: str, base: str) -> bytes:
    data = values.get(f"{name}-data")
    if data:
        try:
            return base64.b64decode("".join(str(data).split()), validate=True)
        except ValueError as error:
            raise AccessError(f"{name}-data is not base64: {error}") from error
    path = values.get(name)
    return Path(base, path).read_bytes() if path else b""


def _impersonation(user: Mapping[str, Any]) -> Headers:
    """Return the impersonation headers. The library omits them and would use all permissions of the user."""
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


async def _run_plugin(provider: ExecProvider, install_hint: str) -> dict[str, Any]:
    try:
        status: dict[str, Any] = await provider.run()
    except OSError as error:
        hint = f" {' '.join(install_hint.split())}" if install_hint else ""
        raise AccessError(
            f"cannot run the credential plugin {provider.args[0]!r}: {error.strerror}.{hint}"
        ) from error
    except ConfigException as error:
        raise AccessError(f"the credential plugin {provider.args[0]!r} failed: {error}") from error
    return status


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None


def _expiry_of(token: str) -> datetime:
    """Return when a JWT expires; the latest possible time if it does not expire."""
    parts = token.split(".")
    if len(parts) != 3:
        raise AccessError(
            "the id-token of auth-provider oidc is not a JWT: expected three parts separated by dots"
        )
    claims = msgspec.json.decode(
        base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims
    )
    return datetime.max.replace(tzinfo=UTC) if claims.exp is None else datetime.fromtimestamp(claims.exp, UTC)


def _explained(error: Exception) -> str:
    """Return a message of one line."""
    if isinstance(error, OSError):
        return f"cannot read {error.filename or 'the file'}: {error.strerror or error}"
    message = " ".join(str(error).split())
    is_sentence = isinstance(error, AccessError | ConfigException)
    return message if is_sentence else f"invalid kubeconfig ({type(error).__name__}: {message})"
