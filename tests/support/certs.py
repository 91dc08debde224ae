"""Creates certificates: valid ones and each kind of invalid one. Keys have mode 0600."""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Certificate", "Certs", "make_certs"]

_DAY = datetime.timedelta(days=1)
_LOCAL = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
_ELSEWHERE = (x509.DNSName("elsewhere.example"),)


@dataclass(frozen=True)
class Certificate:
    """The paths of a certificate and of its key."""

    cert_file: Path
    key_file: Path


@dataclass(frozen=True)
class Certs:
    """All certificates. `ca` signed all but `untrusted`, which `other_ca` signed."""

    ca: Path
    other_ca: Path
    server: Certificate
    """Valid for 127.0.0.1 and localhost."""
    renewed: Certificate
    """A second certificate like `server`, for rotation."""
    expired: Certificate
    wrong_host: Certificate
    """Valid for elsewhere.example."""
    untrusted: Certificate
    client: Certificate
    """For clients; common name `client`."""
    untrusted_client: Certificate


class _Authority:
    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(self._name, self._name, self._key.public_key(), expired=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[x509.GeneralName, ...] = _LOCAL,
        expired: bool = False,
        client: bool = False,
    ) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        certificate = (
            _builder(_name(name), self._name, key.public_key(), expired=expired)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        paths = Certificate(self._directory / f"{name}.pem", self._directory / f"{name}-key.pem")
        paths.cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_secret(
            paths.key_file,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
        return paths


def make_certs(directory: Path) -> Certs:
    """Create all certificates in `directory`, in some milliseconds."""
    ca, other = _Authority(directory, "ca"), _Authority(directory, "other-ca")
    return Certs(
        ca=ca.path,
        other_ca=other.path,
        server=ca.issue("server"),
        renewed=ca.issue("renewed"),
        expired=ca.issue("expired", expired=True),
        wrong_host=ca.issue("wrong-host", hosts=_ELSEWHERE),
        untrusted=other.issue("untrusted"),
        client=ca.issue("client", client=True),
        untrusted_client=other.issue("untrusted-client", client=True),
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, expired: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    first, last = (now - 2 * _DAY, now - _DAY) if expired else (now - _DAY, now + _DAY)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
    )


def _write_secret(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
