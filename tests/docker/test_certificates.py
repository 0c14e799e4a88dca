"""The script that makes a federation's secrets; tests/deployment shows that Flower takes them."""

import importlib.util
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from tests.docker.compose import DOCKER

CONTAINERS = {"server.key", "superexec.secret", "node-0.key"}
"""What the README gives to the containers' user."""


@pytest.fixture
def make_as_another(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the script as a user that may not read what belongs to the containers."""
    spec = importlib.util.spec_from_file_location("certificates", DOCKER / "certificates.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    read = Path.read_bytes

    def read_if_allowed(path: Path) -> bytes:
        if path.name in CONTAINERS:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_if_allowed)
    return lambda directory, *arguments: script.main(["--directory", str(directory), *arguments])


def make(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            str(DOCKER / "certificates.py"),
            "--directory",
            str(directory),
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def handshake(server: Path, ca: Path, host: str) -> None:
    """Connect to a TLS server with this certificate, as a client that trusts ``ca`` strictly."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server / "server.crt", server / "server.key")
    trusting = ssl.create_default_context(cafile=str(ca))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            serving.wrap_socket(there, server_side=True).close()
        except OSError:
            there.close()  # the client did not like the certificate

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        trusting.wrap_socket(here, server_hostname=host).close()
    finally:
        here.close()
        thread.join()


def test_makes_everything_readable_by_the_owner_only(tmp_path: Path) -> None:
    made = make(tmp_path / "secrets", "--node", "node-0", "--node", "node-1")
    assert made.returncode == 0, made.stderr
    files = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "secrets").iterdir()}
    assert files == {
        "ca.crt": 0o644,
        "ca.key": 0o600,
        "server.crt": 0o644,
        "server.key": 0o600,
        "superexec.secret": 0o600,
        "node-0.key": 0o600,
        "node-0.pub": 0o644,
        "node-1.key": 0o600,
        "node-1.pub": 0o644,
    }


def test_umask_does_not_hide_certificates(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        make(tmp_path, "--node", "node-0")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes["ca.crt"] == modes["server.crt"] == modes["node-0.pub"] == 0o644
    assert modes["ca.key"] == modes["server.key"] == modes["node-0.key"] == 0o600


def test_keys_of_the_containers_are_not_read_to_be_kept(
    tmp_path: Path, make_as_another: Callable[..., int]
) -> None:
    make(tmp_path, "--node", "node-0")
    assert make_as_another(tmp_path, "--node", "node-0", "--node", "node-1") == 0
    assert (tmp_path / "node-1.pub").exists()


@pytest.mark.parametrize("lost", ["server.crt", "node-0.pub"])
def test_key_of_the_containers_that_is_needed_is_a_sentence(
    tmp_path: Path, make_as_another: Callable[..., int], lost: str
) -> None:
    make(tmp_path, "--node", "node-0")
    (tmp_path / lost).unlink()
    with pytest.raises(SystemExit, match=r"\.key may not be read or written .* with sudo"):
        make_as_another(tmp_path, "--node", "node-0")


def test_directory_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = make(tmp_path / "file")
    assert answer.returncode == 1
    assert answer.stderr == f"{tmp_path / 'file'}: File exists.\n"


def test_public_half_alone_gets_no_other_key(tmp_path: Path) -> None:
    make(tmp_path, "--node", "node-0")
    (tmp_path / "node-0.key").unlink()
    before = contents(tmp_path)
    answer = make(tmp_path, "--node", "node-0")
    assert answer.returncode == 1
    assert "node-0.pub is there without" in answer.stderr
    assert contents(tmp_path) == before


def test_never_overwrites(tmp_path: Path) -> None:
    make(tmp_path, "--node", "node-0")
    before = contents(tmp_path)
    again = make(tmp_path, "--node", "node-0", "--node", "node-1")
    assert again.returncode == 0, again.stderr
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"node-1.key", "node-1.pub"}


def test_node_keys_are_what_flower_reads(tmp_path: Path) -> None:
    make(tmp_path, "--node", "node-0", "--node", "node-1")
    private = load_ssh_private_key((tmp_path / "node-0.key").read_bytes(), None)
    public = load_ssh_public_key((tmp_path / "node-0.pub").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(private.curve, ec.SECP384R1)
    assert private.public_key() == public
    assert (tmp_path / "node-0.key").read_bytes() != (tmp_path / "node-1.key").read_bytes()


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "superlink", "gateway", "fl.example.org", "10.0.0.7"]
)
def test_server_certificate_holds_for_its_hosts(tmp_path: Path, host: str) -> None:
    make(tmp_path, "--host", "fl.example.org", "--host", "10.0.0.7")
    handshake(tmp_path, tmp_path / "ca.crt", host)


def test_server_certificate_holds_for_nothing_else(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"[Hh]ostname mismatch"):
        handshake(tmp_path / "a", tmp_path / "a" / "ca.crt", "fl.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path / "a", tmp_path / "b" / "ca.crt", "localhost")


def test_removed_certificate_is_renewed_for_the_same_key(tmp_path: Path) -> None:
    make(tmp_path)
    before = contents(tmp_path)
    (tmp_path / "server.crt").unlink()
    assert make(tmp_path, "--host", "fl.example.org").returncode == 0
    after = contents(tmp_path)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"server.crt"}
    handshake(tmp_path, tmp_path / "ca.crt", "fl.example.org")


def test_certificate_for_other_hosts_is_an_error_not_overwritten(tmp_path: Path) -> None:
    make(tmp_path)
    before = contents(tmp_path)
    answer = make(tmp_path, "--host", "fl.example.org")
    assert answer.returncode == 1
    assert "server.crt is not valid for fl.example.org: remove it to renew it." in answer.stderr
    assert contents(tmp_path) == before


def test_works_with_the_authority_key_kept_elsewhere(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "ca.key").unlink()
    assert make(tmp_path, "--node", "node-9").returncode == 0
    assert not (tmp_path / "ca.key").exists()
    (tmp_path / "server.crt").unlink()
    answer = make(tmp_path)
    assert answer.returncode == 1
    assert "ca.key is not there" in answer.stderr


def test_client_machine_gets_no_authority(tmp_path: Path) -> None:
    assert make(tmp_path, "--client", "--node", "node-0").returncode == 0
    assert contents(tmp_path).keys() == {"superexec.secret", "node-0.key", "node-0.pub"}


@pytest.mark.parametrize("name", ["ca", "server", "../x", "", "a b"])
def test_bad_node_name_is_refused(tmp_path: Path, name: str) -> None:
    answer = make(tmp_path, "--node", name)
    assert answer.returncode == 2
    assert f"--node {name!r}" in answer.stderr
    assert not list(tmp_path.iterdir())
