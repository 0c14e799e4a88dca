"""Who a client is: an Ed25519 key of its own, and a roster of the public keys of all clients.

The private key lies in the client's state directory, where nobody else can read it. The public one
is a line of TOML, ``hospital-a = "9f…"`` (32 bytes in hexadecimal), and a roster is a file of such
lines. Every client has a copy of the roster from somebody it trusts, which must not be the server.
"""

import hashlib
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..checks import check
from ..files import open_handle
from .cohort import NO_ROSTER, SIGNATURE_BYTES, Member, Terms
from .crypto import check_public
from .message import KEY_BYTES, Fields, read_bytes, read_text, require

KEY_FILE = "identity.key"
PRIVATE = "private "
"""What a private key begins with in its file, so that nobody takes it for a public line."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROSTER = b"fedau-flwr/secure/2/roster/"


class IdentityError(ValueError):
    """Why there is no identity or roster; the text is a sentence for whoever runs the client."""


class Identity:
    """A client's name and private key."""

    def __init__(self, name: str, private: bytes) -> None:
        self.name = name
        self._key = Ed25519PrivateKey.from_private_bytes(private)

    @property
    def public(self) -> bytes:
        """The public key."""
        return self._key.public_key().public_bytes_raw()

    @property
    def line(self) -> str:
        """The public line, for the roster."""
        return f'{self.name} = "{self.public.hex()}"'

    def sign(self, statement: bytes) -> bytes:
        """Sign a statement."""
        return self._key.sign(statement)

    @classmethod
    def create(cls, directory: Path, name: str) -> Self:
        """Make a new key in `directory`; one that is there is never overwritten."""
        rule = "1 to 64 of A-Z, a-z, 0-9, '_' and '-'"
        check("--name", name, _NAME.fullmatch(name), rule, IdentityError)
        key = Ed25519PrivateKey.generate().private_bytes_raw()
        path = directory / KEY_FILE
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(open_handle(path, os.O_WRONLY | os.O_EXCL), "w") as file:
                file.write(f'{name} = "{PRIVATE}{key.hex()}"\n')
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            check("DIRECTORY", str(directory), directory.is_dir(), "a directory", IdentityError)
            raise IdentityError(f"{path} exists already, and a key is never overwritten.") from None
        except OSError as error:
            raise IdentityError(f"{path} cannot be written: {error.strerror}.") from None
        return cls(name, key)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the key that `create` wrote."""
        path = directory / KEY_FILE
        lines = list(_read_lines(path, PRIVATE))
        if len(lines) != 1:
            raise IdentityError(f"{path} must hold one key, as `fedau keys new` writes it.")
        if path.stat().st_mode & 0o077:
            raise IdentityError(f"{path} must be readable by its owner alone: chmod 600 {path}.")
        return cls(*lines[0])


class Roster:
    """The public keys of all clients by name."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = dict(sorted(keys.items()))
        self._loaded: dict[str, Ed25519PublicKey] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    @property
    def digest(self) -> bytes:
        """The hash of all names and keys."""
        text = json.dumps({name: key.hex() for name, key in self._keys.items()})
        return hashlib.sha256(_ROSTER + text.encode()).digest()

    def lists(self, identity: Identity) -> bool:
        """Say whether a client is in the roster, under its own key."""
        return self._keys.get(identity.name) == identity.public

    def verify(self, name: str, signature: bytes, statement: bytes) -> bool:
        """Say whether the client called `name` signed `statement`."""
        if name not in self._keys or len(signature) != SIGNATURE_BYTES:
            return False
        if name not in self._loaded:
            self._loaded[name] = Ed25519PublicKey.from_public_bytes(self._keys[name])
        try:
            self._loaded[name].verify(signature, statement)
        except InvalidSignature:
            return False
        return True

    def to_toml(self) -> str:
        """Return the file's content."""
        return "".join(f'{name} = "{key.hex()}"\n' for name, key in self._keys.items())

    @classmethod
    def load(cls, *paths: Path) -> Self:
        """Read public lines or whole rosters; no name and no key may appear twice."""
        lines = [line for path in paths for line in _read_lines(path)]
        for kind, values in (("name", [n for n, _ in lines]), ("key", [k.hex() for _, k in lines])):
            value, times = max(Counter(values).items(), key=itemgetter(1), default=("", 0))
            if times > 1:
                raise IdentityError(f"The {kind} {value} appears twice among the public keys.")
        return cls(dict(lines))


def roster_digest(roster: Roster | None) -> bytes:
    """Return the hash of a roster, zeros without one."""
    return NO_ROSTER if roster is None else roster.digest


def read_member(client: int, reply: Fields, terms: Terms, roster: Roster | None) -> Member:
    """Read a client's keys, signed with a roster."""
    share_key, mask_key = (read_bytes(reply, k, KEY_BYTES) for k in ("share-key", "mask-key"))
    same = read_bytes(reply, "roster", KEY_BYTES) == terms.roster
    require(same, "its roster is not the server's, or only one of them has a roster")
    # Others would refuse a bad one, and so lose the round.
    for key in (share_key, mask_key):
        check_public(key)
    if roster is None:
        return Member(client, share_key, mask_key)
    name = read_text(reply, "name")
    signature = read_bytes(reply, "signature", SIGNATURE_BYTES)
    member = Member(client, share_key, mask_key, name, signature)
    signed = roster.verify(name, member.signature, terms.statement(member))
    require(signed, "it is not in the roster, or did not sign its keys for this round")
    return member


def _read_lines(path: Path, prefix: str = "") -> Iterable[tuple[str, bytes]]:
    """Read lines of names and 32 bytes in hexadecimal."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise IdentityError(f"{path} is no file of keys: {error}.") from None
    for name, value in content.items():
        right = isinstance(value, str) and re.fullmatch(prefix + "[0-9a-f]{64}", value)
        if not right or not _NAME.fullmatch(name):
            raise IdentityError(
                f"{path} is not what `fedau keys` prints: {name!r} must be a name, followed by "
                "32 bytes in hexadecimal."
            )
        yield name, bytes.fromhex(value.removeprefix(prefix))
