"""Where the API server is and who we are, as values, and the TLS context that follows from them."""

import ssl
import tempfile
from pathlib import Path

import msgspec

from windlass.kubeapi.errors import AccessError

Headers = tuple[tuple[str, str], ...]


class Tls(msgspec.Struct, frozen=True):
    """Contents, not paths: two that are equal may share their connections, and a file may change under its name."""

    authority: bytes = b""
    """PEM. Empty: whom the operating system trusts."""
    certificate: bytes = b""
    key: bytes = b""
    is_verified: bool = True
    server_name: str = ""
    """What the server's certificate must be for, when that is not the host of its address."""


class Found(msgspec.Struct, frozen=True):
    server: str
    source: str = ""
    """Where this was found, for messages."""
    namespace: str = "default"
    headers: Headers = ()
    """Those that say who asks, and in whose name."""
    tls: Tls | None = None
    """None: there is no TLS."""
    proxy: str = ""
    may_use_environment_proxy: bool = False
    good_for: float | None = None
    """After so many seconds it is to be looked up again; None: when the server no longer accepts it."""


def context_of(tls: Tls, source: str) -> ssl.SSLContext:
    try:
        return _context_of(tls)
    except ssl.SSLError as error:
        raise AccessError(f"{source}: the certificates or the key cannot be used: {error}") from error


def _context_of(tls: Tls) -> ssl.SSLContext:
    authority = tls.authority.decode("ascii", "replace")
    context = ssl.create_default_context(cadata=authority or None)
    # Python 3.13 began to refuse authorities without certain extensions. Those of many clusters lack them, kubectl
    # accepts them, and they are verified all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not tls.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certificate:
        _load_certificate(context, tls)
    return context


def _load_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Python reads them from files only. Nobody else can open this folder, and it is gone at once."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "client.crt"), Path(folder, "client.key")
        certificate.write_bytes(tls.certificate)
        key.write_bytes(tls.key or tls.certificate)
        # An encrypted key would otherwise be asked for on the terminal.
        context.load_cert_chain(certificate, key, password=b"")
