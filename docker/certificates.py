#!/usr/bin/env python3
"""Make the secrets of a federation: CA, SuperLink certificate, node keys, SuperExec secret.

Needs nothing but Python and ``cryptography``, which comes with Flower. Files that exist are never
overwritten: run it again with more ``--node`` names to add nodes, or remove ``server.crt`` alone to
have it issued anew for the same key.
"""

import argparse
import datetime
import ipaddress
import os
import re
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_NAME = "FedAU federation CA"
ALWAYS_VALID_FOR = ("localhost", "127.0.0.1", "::1", "superlink", "gateway")
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RESERVED = {"ca", "server", "superexec"}


def write_new(path: Path, make: Callable[[], bytes], *, mode: int) -> None:
    """Write ``make()`` to a file that must not exist yet; leave an existing one alone."""
    if path.exists():
        print(f"kept    {path}")
        return
    content = make()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        # A certificate must be readable in the containers, whatever the umask of this shell.
        os.fchmod(descriptor, mode)
        file.write(content)
    print(f"created {path}")


def pem_key() -> bytes:
    """Return a new P-384 key in the format that TLS libraries read."""
    return ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def openssh_key() -> bytes:
    """Return a new P-384 key in OpenSSH format, the only one that flower-supernode accepts."""
    return ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private key of either format."""
    content = path.read_bytes()
    openssh = b"OPENSSH" in content
    load = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    key = load(content, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SystemExit(f"{path} does not hold an elliptic-curve key: move it away.")
    return key


def subject_name(host: str) -> x509.GeneralName:
    """Return the certificate entry for a DNS name or an IP address."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def certificate_builder(
    name: str, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    """Start a certificate for ``key`` that is valid from now on."""
    # An hour of grace for clients whose clock is behind.
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the usage bits that strict verification (Python 3.13) asks for."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def ca_certificate(key: ec.EllipticCurvePrivateKey, days: int) -> bytes:
    """Return the self-signed certificate of the federation's own CA."""
    return (
        certificate_builder(CA_NAME, key, days)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CA_NAME)]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(key_usage(signs_certificates=True), True)
        .sign(key, hashes.SHA384())
        .public_bytes(serialization.Encoding.PEM)
    )


def server_certificate(
    key: ec.EllipticCurvePrivateKey, directory: Path, hosts: Sequence[str], days: int
) -> bytes:
    """Return a certificate for ``hosts``, signed by the CA in ``directory``."""
    if not (directory / "ca.key").exists():
        raise SystemExit(
            f"{directory / 'ca.key'} is not there, so {directory / 'server.crt'} cannot be signed: "
            "put it back for this step."
        )
    authority = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    authority_key = load_key(directory / "ca.key")
    return (
        certificate_builder(hosts[0], key, days)
        .issuer_name(authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(key_usage(signs_certificates=False), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.SubjectAlternativeName([subject_name(host) for host in hosts]), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), False
        )
        .sign(authority_key, hashes.SHA384())
        .public_bytes(serialization.Encoding.PEM)
    )


def check_hosts(path: Path, hosts: Sequence[str]) -> None:
    """Stop if a certificate that was kept is not valid for every host that was asked for."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    missing = [host for host in hosts if subject_name(host) not in names]
    if missing:
        raise SystemExit(f"{path} is not valid for {', '.join(missing)}: remove it to renew it.")


def make_node(directory: Path, name: str) -> None:
    """Make one SuperNode's key pair; the public half is what the SuperLink registers."""
    private, public = directory / f"{name}.key", directory / f"{name}.pub"
    if public.exists() and not private.exists():
        raise SystemExit(
            f"{public} is there without {private}: put that back, or remove it for a new pair."
        )
    write_new(private, openssh_key, mode=0o600)
    write_new(public, lambda: public_line(load_key(private), name), mode=0o644)


def public_line(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """Return the public half of a node's key as one line."""
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return line + f" {name}\n".encode()


def make_server(directory: Path, hosts: Sequence[str], days: int) -> None:
    """Make the CA and the SuperLink's key and certificate."""
    # A CA without its key is one whose key is kept elsewhere, as it should be.
    if not (directory / "ca.crt").exists():
        write_new(directory / "ca.key", pem_key, mode=0o600)
    write_new(
        directory / "ca.crt",
        lambda: ca_certificate(load_key(directory / "ca.key"), days),
        mode=0o644,
    )
    write_new(directory / "server.key", pem_key, mode=0o600)
    write_new(
        directory / "server.crt",
        lambda: server_certificate(load_key(directory / "server.key"), directory, hosts, days),
        mode=0o644,
    )
    check_hosts(directory / "server.crt", hosts)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(__file__).parent / "secrets",
        help="where the files go (default: secrets beside this script)",
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        help="name or address under which clients reach the SuperLink; may be repeated "
        f"(always included: {', '.join(ALWAYS_VALID_FOR)})",
    )
    parser.add_argument(
        "--node", action="append", default=[], help="name of a node to make a key for; repeatable"
    )
    parser.add_argument(
        "--client",
        action="store_true",
        help="on a client's machine: make node keys and the SuperExec secret only, no CA",
    )
    parser.add_argument("--days", type=int, default=825, help="validity of certificates")
    options = parser.parse_args(arguments)
    for name in options.node:
        if not NODE_NAME.fullmatch(name) or name in RESERVED:
            parser.error(
                f"--node {name!r}: use letters, digits, '.', '_' and '-', and none of "
                f"{', '.join(sorted(RESERVED))}."
            )
    if options.days < 1:
        parser.error(f"--days {options.days}: must be at least 1.")
    return options


def make_missing(options: argparse.Namespace) -> None:
    """Make every file that is not there yet."""
    directory: Path = options.directory
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    hosts = list(dict.fromkeys([*options.host, *ALWAYS_VALID_FOR]))
    if not options.client:
        make_server(directory, hosts, options.days)
    write_new(directory / "superexec.secret", lambda: secrets.token_bytes(32), mode=0o600)
    for name in options.node:
        make_node(directory, name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what is missing."""
    options = parse(arguments)
    try:
        make_missing(options)
    except PermissionError as error:
        raise SystemExit(
            f"{error.filename} may not be read or written by this user: run this with sudo, "
            "since it may be the containers' by now."
        ) from None
    except OSError as error:
        raise SystemExit(f"{error.filename}: {error.strerror}.") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
