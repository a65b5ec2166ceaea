"""The server's certificate, the bearer token of its clients, and the kubeconfig that contains both.

Certificate, key and token are created on the first start and kept in the data directory, so that they stay valid after
a restart. The certificate is self-signed. All files have mode 0600.
"""

import base64
import ipaddress
import re
import secrets
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import yaml

from windlass.localcluster import private_files

# Host names in the certificate: those of this machine and those that pods use.
HOSTS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
LOOPBACK = ("127.0.0.1", "::1")
# The address of the server for pods with an isolated network.
GATEWAY = "10.86.0.1"
ADDRESSES = (*LOOPBACK, GATEWAY)
_VALIDITY_DAYS = 3650
# Any other token comes from a damaged file and is replaced by `load_or_create`.
_TOKEN = re.compile(rb"[A-Za-z0-9_-]{32,}")


class Credentials(msgspec.Struct, frozen=True):
    certificate: Path
    key: Path
    token: str

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context


def exist(directory: Path) -> bool:
    """Return whether a server has been started with this data directory: it creates the credentials last."""
    return any((directory / name).exists() for name in ("server.key", "server.crt", "token"))


def load_or_create(directory: Path) -> Credentials:
    """Return the credentials in a data directory. Create a missing certificate and key, and a missing or damaged token.

    Certificate and key are always created together.
    """
    certificate, key, token = directory / "server.crt", directory / "server.key", directory / "token"
    if not (certificate.exists() and key.exists()):
        _create_certificate(certificate, key)
    if not token.exists() or not _TOKEN.fullmatch(token.read_bytes()):
        private_files.write(token, secrets.token_urlsafe(32).encode())
    return Credentials(certificate, key, token.read_text())


def write_kubeconfig(path: Path, url: str, credentials: Credentials) -> None:
    authority = base64.b64encode(credentials.certificate.read_bytes()).decode()
    name = "windlass"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": name, "user": {"token": credentials.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    private_files.write(path, yaml.safe_dump(config, sort_keys=False).encode())


def _create_certificate(certificate: Path, key: Path) -> None:
    # Imported here because the import is slow, and needed only once per data directory.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "windlass")])
    names = [
        *(x509.DNSName(host) for host in HOSTS),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES),
    ]
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(private.public_key())
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_VALIDITY_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                key_encipherment=False,
                content_commitment=False,
                data_encipherment=False,
                key_agreement=False,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .sign(private, hashes.SHA256())
    )
    private_files.write(
        key,
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
    private_files.write(certificate, signed.public_bytes(serialization.Encoding.PEM))
