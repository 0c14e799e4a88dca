"""Keys, rosters, and the commands that make them."""

import logging
import os

import pytest
from typer.testing import CliRunner

from fedau_flwr._log import log
from fedau_flwr.cli import app
from fedau_flwr.secure import Identity, IdentityError, Roster

from .protocol import identity, roster_of


def fedau(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_commands_make_a_roster_that_lists_the_keys(tmp_path):
    for name in ("a", "b"):
        made = fedau("keys", "new", tmp_path / name)
        assert made.exit_code == 0
        (tmp_path / f"{name}.pub").write_text(made.output)
    result = fedau("keys", "roster", tmp_path / "b.pub", tmp_path / "a.pub")
    assert result.exit_code == 0
    (tmp_path / "roster.toml").write_text(result.output)
    roster = Roster.load(tmp_path / "roster.toml")
    assert len(roster) == 2
    for name in ("a", "b"):
        one = Identity.load(tmp_path / name)
        assert one.name == name
        assert roster.lists(one)
        signature = one.sign(b"text")
        assert roster.verify(name, signature, b"text")
        assert not roster.verify(name, signature, b"other text")
        assert not roster.verify(name, signature[:-1], b"text")
        assert not roster.verify({"a": "b", "b": "a"}[name], signature, b"text")
        assert not roster.verify("c", signature, b"text")
    # The same whatever the order of the files was.
    assert Roster.load(tmp_path / "a.pub", tmp_path / "b.pub").digest == roster.digest
    assert Roster.load(tmp_path / "a.pub").digest != roster.digest


def test_a_key_is_private_and_never_overwritten(tmp_path):
    made = fedau("keys", "new", tmp_path / "state", "--name", "hospital-a")
    assert made.output.startswith('hospital-a = "')
    path = tmp_path / "state" / "identity.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    before = path.read_bytes()
    assert Identity.load(tmp_path / "state").public.hex() in made.output
    assert before.decode() != made.output
    again = fedau("keys", "new", tmp_path / "state")
    assert again.exit_code == 2
    assert "never overwritten" in again.output
    beside = fedau("keys", "new", path, "--name", "a")
    assert beside.exit_code == 2
    assert f"DIRECTORY is {str(path)!r}, but must be a directory." in " ".join(
        beside.output.split()
    )
    assert path.read_bytes() == before
    # A link that somebody put there is not followed either.
    (tmp_path / "trap").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "trap" / "identity.key")
    assert fedau("keys", "new", tmp_path / "trap").exit_code == 2
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read"),
        ("no toml", "is no file of keys"),
        ('a = "12"', "32 bytes in hexadecimal"),
        ("a = 3", "32 bytes in hexadecimal"),
        (f'"a b" = "{"0" * 64}"', "32 bytes in hexadecimal"),
        (f'a = "{"0" * 64}"\nb = "{"0" * 64}"', "appears twice"),
    ],
)
def test_files_that_are_no_roster_are_refused_in_a_sentence(text, reason, tmp_path):
    path = tmp_path / "a.pub"
    if text is not None:
        path.write_text(text)
    result = fedau("keys", "roster", path)
    assert result.exit_code == 2
    assert reason in result.output
    assert "Traceback" not in result.output


def test_a_private_key_is_not_taken_for_a_public_line(tmp_path):
    Identity.create(tmp_path, "a")
    result = fedau("keys", "roster", tmp_path / "identity.key")
    assert result.exit_code == 2
    assert (tmp_path / "identity.key").read_text().split('"')[1] not in result.output


def test_a_name_in_two_files_is_refused(tmp_path):
    (tmp_path / "a.pub").write_text(identity(1).line)
    result = fedau("keys", "roster", tmp_path / "a.pub", tmp_path / "a.pub")
    assert result.exit_code == 2
    assert "The name client-1 appears twice" in result.output


def test_a_key_that_others_can_read_is_refused(tmp_path):
    Identity.create(tmp_path, "a")
    (tmp_path / "identity.key").chmod(0o644)
    with pytest.raises(IdentityError, match="readable by its owner alone"):
        Identity.load(tmp_path)
    with pytest.raises(IdentityError, match=r"--name is 'x y'"):
        Identity.create(tmp_path / "other", "x y")


def test_rosters_are_the_same_only_with_the_same_names_and_keys():
    assert roster_of([1, 2]).digest == roster_of([2, 1]).digest != roster_of([1, 3]).digest
    swapped = {identity(1).name: identity(2).public, identity(2).name: identity(1).public}
    assert Roster(swapped).digest != roster_of([1, 2]).digest


def test_control_characters_in_others_words_do_not_forge_log_lines(caplog):
    with caplog.at_level(logging.INFO):
        log.warning("Rejected: %s.", "x\nINFO: all is well\x1b[2K")
    assert caplog.messages == ["Rejected: x\\nINFO: all is well\\x1b[2K."]
