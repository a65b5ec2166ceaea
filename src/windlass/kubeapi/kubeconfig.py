"""Kubeconfig files and the service account of a pod, as kubernetes_asyncio reads them.

Only `access` imports this, and only when there is such a file: the library takes 38 MB. Files are joined, contexts
found, plugins run and tokens refreshed by the library. What stands here is what it lacks, each with the reason.
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

from windlass.kubeapi.credentials import Found, Headers, Tls
from windlass.kubeapi.errors import AccessError

SECONDS_BETWEEN_READS = 60.0
"""How often a token that others rotate in its file is read, as kubectl and the in-cluster clients do."""
SHORTEST_SECONDS = 10.0
"""A plugin that hands out credentials which are about to expire is not run more often than this."""
LONGEST_PLUGIN_SECONDS = 300.0
"""A plugin may wait for a person at a browser, but not for ever."""


async def from_files(paths: str, context: str) -> Found:
    """`paths` as in $KUBECONFIG: several, joined with a colon."""
    where = paths
    try:
        # A big file takes a while to parse, and nothing else should wait for it.
        merger = await asyncio.to_thread(_merged, paths)
        chosen = _chosen_context(merger, context)
        where = f"{paths} (context {chosen})"
        loader = _Loader(merger, chosen)
        async with asyncio.timeout(LONGEST_PLUGIN_SECONDS):
            await loader.load_and_set(_Target())
        return loader.found(where)
    except TimeoutError as error:
        raise AccessError(f"{where}: no credentials within {LONGEST_PLUGIN_SECONDS:g} s") from error
    except Exception as error:
        # Whatever somebody's file makes the library raise is a message about that file.
        raise AccessError(f"{where}: {_explained(error)}") from error


def in_cluster(environment: Mapping[str, str], folder: Path) -> Found:
    target = _Target()
    try:
        incluster_config.InClusterConfigLoader(
            token_filename=str(folder / "token"),
            cert_filename=str(folder / "ca.crt"),
            # Everything is read again now and then, the authority too: a hook for the token alone is of no use.
            try_refresh_token=False,
            environ=dict(environment),
        ).load_and_set(target)  # type: ignore[arg-type]
        authority = Path(target.ssl_ca_cert).read_bytes()
    except (ConfigException, OSError) as error:
        raise AccessError(
            f"KUBERNETES_SERVICE_HOST is set, so this is a pod, but its service account in {folder} cannot be used: "
            f"{error} Does the pod set automountServiceAccountToken: false? Otherwise give a kubeconfig."
        ) from error
    namespace = folder / "namespace"
    return Found(
        server=target.host,
        source=str(folder),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        headers=(("Authorization", target.api_key["BearerToken"].strip()),),
        tls=Tls(authority=authority),
        good_for=SECONDS_BETWEEN_READS,
    )


class _Target:
    """Receives what the loaders find. The library's own class would set the levels of other people's loggers."""

    def __init__(self) -> None:
        self.host = ""
        self.ssl_ca_cert = ""
        self.api_key: dict[str, str] = {}


def _merged(paths: str) -> kube_config.KubeConfigMerger:
    """The library fails at an empty file, such as /dev/null; to kubectl it is one without contexts."""
    present = [path for path in paths.split(os.pathsep) if path and _has_content(Path(path).expanduser())]
    if not present:
        raise AccessError("there is no such file, or it is empty. Give a kubeconfig that exists.")
    return kube_config.KubeConfigMerger(os.pathsep.join(present))


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _chosen_context(merger: kube_config.KubeConfigMerger, wanted: str) -> str:
    """The first file that names a current context decides, as with kubectl; the library takes the last."""
    assert merger.config is not None  # noqa: S101 — at least one file was read
    known = [node["name"] for node in merger.config.value["contexts"]]
    current = [file.get("current-context") for file in merger.config_files.values()]
    chosen = wanted or next((name for name in current if name), "")
    if not chosen:
        raise AccessError(f"no current context is set. Choose one of: {_listed(known)}.")
    if chosen not in known:
        raise AccessError(f"there is no context {chosen!r}. Choose one of: {_listed(known)}.")
    return str(chosen)


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "(there are none)"


class _Loader(kube_config.KubeConfigLoader):
    # Never None once a context is chosen, which the library's types do not say.
    _config: Any
    _cluster: Any
    _user: Any
    host: str

    def __init__(self, merger: kube_config.KubeConfigMerger, context: str) -> None:
        super().__init__(merger.config, context, config_base_path=None)
        # The library's own way of saving hands an argument to a method that takes none.
        self._config_persister = lambda _config: _save(merger)
        self._context = self._config["contexts"].get_with_name(context)["context"].value
        user = self._context.get("user")
        if user and self._user is None:
            raise AccessError(f"the context names a user {user!r}, and there is none of that name")
        # The library fails at a context without a user.
        self._user = self._user or kube_config.ConfigNode("users", {})
        self._plugin_status: dict[str, Any] = {}
        self._expires_at: datetime | None = None
        self._tls: Tls | None = None

    def found(self, source: str) -> Found:
        if self._tls is None:
            # As kubectl does: who we are is not told to everybody on the way.
            return Found(server=self.host, source=source, namespace=self._namespace(), proxy=self._proxy())
        return Found(
            server=self.host,
            source=source,
            namespace=self._namespace(),
            headers=(*self._authorization(), *_impersonation(self._user.value)),
            tls=self._tls,
            proxy=self._proxy(),
            may_use_environment_proxy=True,
            good_for=self._good_for(),
        )

    def _namespace(self) -> str:
        return self._context.get("namespace") or "default"

    def _authorization(self) -> Headers:
        # A token file may end with a line feed, which no header may hold.
        token = getattr(self, "token", "").strip()
        return (("Authorization", token),) if token else ()

    def _proxy(self) -> str:
        proxy = self._cluster.value.get("proxy-url") or ""
        if proxy and not proxy.startswith(("http://", "https://")):
            raise AccessError(f"proxy-url {proxy!r}: only http:// and https:// proxies are supported")
        return proxy

    def _good_for(self) -> float | None:
        if self._expires_at is not None:
            # Before it expires, since requests that are under way should not fail for that.
            left = (self._expires_at - datetime.now(UTC)).total_seconds()
            return max(SHORTEST_SECONDS, 0.8 * left)
        return SECONDS_BETWEEN_READS if self._user.value.get("tokenFile") else None

    def _load_cluster_info(self) -> None:
        """In place of the library's, which writes keys into temporary files that a kill leaves behind."""
        cluster, user = self._cluster.value, self._user.value
        self.host = str(self._cluster["server"]).rstrip("/")
        if not self.host.startswith("https://"):
            return
        status = self._plugin_status
        has_certificate_of_plugin = "clientCertificateData" in status
        base = self._get_base_path(self._user.path)
        self._tls = Tls(
            authority=_content(cluster, "certificate-authority", self._get_base_path(self._cluster.path)),
            certificate=status["clientCertificateData"].encode()
            if has_certificate_of_plugin
            else _content(user, "client-certificate", base),
            key=status["clientKeyData"].encode()
            if has_certificate_of_plugin
            else _content(user, "client-key", base),
            is_verified=not cluster.get("insecure-skip-tls-verify", False),
            server_name=cluster.get("tls-server-name") or "",
        )

    def _load_user_token(self) -> bool:
        """With a file the token beside it counts for nothing, as with kubectl; the library prefers the token."""
        user = self._user.value
        if user.get("tokenFile") and "token" in user:
            rest = {name: value for name, value in user.items() if name != "token"}
            self._user = kube_config.ConfigNode(self._user.name, rest, self._user.path)
        return bool(super()._load_user_token())

    async def load_from_exec_plugin(self) -> bool:
        """In place of the library's, which forgets when a certificate expires, and takes none beside a token."""
        exec_node = self._user["exec"]
        provider = ExecProvider(exec_node)
        provider.args = [_command(provider.args[0], self._get_base_path(self._user.path))] + [
            str(argument) for argument in provider.args[1:]
        ]
        status = await _run(provider, exec_node.value.get("installHint") or "")
        if not status.get("token") and not status.get("clientCertificateData"):
            raise AccessError(
                f"the plugin {provider.args[0]!r} gave neither a token nor a client certificate"
            )
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        if status.get("expirationTimestamp"):
            self._expires_at = parse_rfc3339(status["expirationTimestamp"])
        self._plugin_status = status
        return True

    async def _load_oid_token(self) -> str:
        """In place of the library's, which reads a token with the wrong alphabet of base64."""
        config = self._user["auth-provider"]["config"]
        token = config.safe_get("id-token") or ""
        if not token or _expiry_of(token) <= datetime.now(UTC):
            await self._refresh_oidc(self._user["auth-provider"])
            token = config["id-token"]
        self._expires_at = _expiry_of(token)
        self.token = f"Bearer {token}"
        return self.token

    async def _refresh_oidc(self, provider: Any) -> None:
        """In place of the library's, which does not verify whom it sends the refresh token to."""
        node = provider["config"]
        config = node.value
        authority = _content(config, "idp-certificate-authority", self._get_base_path(self._user.path))
        requestor = OpenIDRequestor(
            str(node["client-id"]),
            config.get("client-secret") or "",
            str(node["idp-issuer-url"]),
            ssl.create_default_context(cadata=authority.decode() or None),
        )
        answer = await requestor.refresh_token(str(node["refresh-token"]))
        config["id-token"] = answer["id_token"]
        # Providers that rotate them accept each one once: what is not kept locks its user out.
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
    """The library leaves these out, and would act with all rights of the user instead of those wanted."""
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


def _command(command: str, base: str) -> str:
    """One with a slash in it is relative to the kubeconfig, as with kubectl, not to where we happen to be."""
    return str(Path(base, command)) if os.sep in command else command


async def _run(provider: ExecProvider, install_hint: str) -> dict[str, Any]:
    try:
        status: dict[str, Any] = await provider.run()
    except OSError as error:
        hint = f" {' '.join(install_hint.split())}" if install_hint else ""
        raise AccessError(
            f"the credential plugin {provider.args[0]!r} cannot be run: {error.strerror}.{hint}"
        ) from error
    except ConfigException as error:
        raise AccessError(f"the credential plugin {provider.args[0]!r} failed: {error}") from error
    return status


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None


def _expiry_of(token: str) -> datetime:
    """Of a JWT. One without an expiry is good for a very long time."""
    parts = token.split(".")
    if len(parts) != 3:
        raise AccessError(
            "the id-token of auth-provider oidc is no JWT: it must have three parts between dots"
        )
    claims = msgspec.json.decode(
        base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims
    )
    return datetime.max.replace(tzinfo=UTC) if claims.exp is None else datetime.fromtimestamp(claims.exp, UTC)


def _explained(error: Exception) -> str:
    """One line, whatever it was."""
    if isinstance(error, OSError):
        where = f"{error.filename} " if error.filename else ""
        return f"{where}cannot be read: {error.strerror or error}"
    said = " ".join(str(error).split())
    is_a_sentence = isinstance(error, AccessError | ConfigException)
    return said if is_a_sentence else f"this cannot be used as a kubeconfig ({type(error).__name__}: {said})"
