"""Address and credentials of an API server as values, and the TLS context for them."""

import ssl
import tempfile
from pathlib import Path

import msgspec

from windlass.kubeapi.errors import AccessError

Headers = tuple[tuple[str, str], ...]


class Tls(msgspec.Struct, frozen=True):
    """TLS settings, with file contents instead of paths: a file may change, and equal settings share connections."""

    authority: bytes = b""
    """PEM; empty for the certificate authorities of the operating system."""
    certificate: bytes = b""
    """PEM of the client certificate; empty for none."""
    key: bytes = b""
    """PEM; empty if `certificate` is empty or contains the key."""
    verifies_server: bool = True
    server_name: str = ""
    """The expected name in the server's certificate, if it differs from the host."""


class ClusterConfig(msgspec.Struct, frozen=True):
    server: str
    source: str = ""
    """The origin of the configuration, for messages."""
    namespace: str = "default"
    headers: Headers = ()
    """Headers for authentication and impersonation."""
    tls: Tls | None = None
    """None for http."""
    proxy: str = ""
    may_use_environment_proxy: bool = False
    renew_after: float | None = None
    """Seconds after which the configuration is loaded again; None: only after the server rejects the credentials."""


def new_context(tls: Tls, source: str) -> ssl.SSLContext:
    try:
        return _new_context(tls)
    except ssl.SSLError as error:
        raise AccessError(f"{source}: invalid certificates or key: {error}") from error


def _new_context(tls: Tls) -> ssl.SSLContext:
    authority = tls.authority.decode("ascii", "replace")
    context = ssl.create_default_context(cadata=authority or None)
    # Python 3.13 rejects certificate authorities without certain extensions, which those of many clusters lack.
    # kubectl accepts them. Certificates are still verified.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not tls.verifies_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certificate:
        _load_certificate(context, tls)
    return context


def _load_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Load the client certificate and key through private temporary files: Python accepts only paths."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "client.crt"), Path(folder, "client.key")
        certificate.write_bytes(tls.certificate)
        key.write_bytes(tls.key or tls.certificate)
        # Without this argument, Python would ask on the terminal for the password of an encrypted key.
        context.load_cert_chain(certificate, key, password=b"")
