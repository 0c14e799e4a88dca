"""Attacks by clients: each costs at most its sender the round, or is known by its name."""

import logging

import numpy as np
import pytest

from fedau_flwr.secure import Exchange, RoundId, VoidRoundError
from fedau_flwr.secure.message import cut, pack_places
from fedau_flwr.secure.offences import Offences

from .protocol import Outcome, Session, identity, plain_sum, ring_vectors, roster_of, run_round

CHEAT = 2


def flip(blob):
    return bytes([blob[0] ^ 1]) + blob[1:]


def cheating(exchange, **changes):
    """Change fields of what the cheat sends in an exchange."""

    def tamper(now, way, client, message):
        if now is exchange and way == "from" and client == CHEAT:
            return message | {key: change(message[key]) for key, change in changes.items()}
        return message

    return tamper


def some(count, size):
    """Return a change that spoils the first entries of a field."""
    return lambda blobs: b"".join(
        flip(blob) if number < count else blob for number, blob in enumerate(cut(blobs, size))
    )


def played(tamper, *, signed, clients=range(1, 8), **options):
    vectors = ring_vectors(clients, 4)
    outcome = Outcome(np.zeros(4, np.uint32))
    roster = roster_of(clients) if signed else None
    try:
        run_round(vectors, tamper=tamper, roster=roster, outcome=outcome, **options)
    except VoidRoundError as void:
        return vectors, outcome, str(void)
    assert np.array_equal(outcome.total, plain_sum(vectors, outcome.counted))
    return vectors, outcome, None


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("field", "size"), [("sealed", 92), ("commitments", 64)])
def test_a_few_bad_shares_cost_nobody_anything(field, size, signed):
    """In 0.1 wrong but authentic shares (other commitments) made their holders look guilty."""
    tamper = cheating(Exchange.SHARES, **{field: some(3, size)})
    vectors, outcome, void = played(tamper, signed=signed)
    assert void is None
    assert outcome.counted == set(vectors)
    assert outcome.offences == {}


@pytest.mark.parametrize(("field", "size"), [("sealed", 92), ("commitments", 64)])
def test_bad_shares_for_most_cost_their_dealer_the_round_with_a_roster(field, size):
    tamper = cheating(Exchange.SHARES, **{field: some(6, size)})
    vectors, outcome, void = played(tamper, signed=True)
    assert void is None
    assert outcome.counted == set(vectors) - {CHEAT}
    assert outcome.refused == {CHEAT: "too few clients hold good shares of its secrets"}
    assert list(outcome.offences) == [CHEAT]


def test_bad_shares_for_most_void_the_round_without_a_roster_and_their_dealer_is_named():
    tamper = cheating(Exchange.SHARES, sealed=some(6, 92))
    _, outcome, void = played(tamper, signed=False)
    assert void is not None
    assert "good shares of client 2" in void
    assert list(outcome.offences) == [CHEAT]


def test_false_accusations_harm_nobody_and_many_are_the_accusers_fault():
    """In 0.1 each of the accused lost the round, and was named for it."""
    for accused in ([0], [0, 2, 3], [0, 2, 3, 4, 5, 6]):
        tamper = cheating(Exchange.MASKED, spoiled=lambda _, a=accused: pack_places(a))
        vectors, outcome, void = played(tamper, signed=True)
        assert void is None
        assert outcome.counted == set(vectors)
        assert set(outcome.offences) == ({CHEAT} if len(accused) >= 4 else set())


def test_as_many_accusers_as_may_cheat_do_not_get_a_client_out():
    def tamper(exchange, way, client, message):
        if exchange is Exchange.MASKED and way == "from" and client in (2, 3, 4):
            return message | {"spoiled": pack_places([0])}
        return message

    vectors, outcome, void = played(tamper, signed=True)
    assert void is None
    assert outcome.counted == set(vectors)
    assert outcome.offences == {}


def test_shares_of_another_secret_void_the_round_and_name_their_dealer():
    tamper = cheating(Exchange.SHARES, **{"seed-commitment": flip})
    _, outcome, void = played(tamper, signed=True)
    assert void == "client 2 dealt shares that do not give its seed"
    assert outcome.offences == {CHEAT: "it dealt shares that do not give its seed"}


def test_a_wrong_share_is_its_holders_fault_and_the_others_suffice():
    tamper = cheating(Exchange.UNMASK, **{"seed-shares": some(7, 32)})
    vectors, outcome, void = played(tamper, signed=True, lost={5: Exchange.UNMASK})
    assert void is None
    assert outcome.counted == set(vectors)
    assert outcome.offences == {CHEAT: "it revealed another share than the one that it was dealt"}


def test_one_signature_less_than_needed_voids_the_round():
    lost = dict.fromkeys((3, 4, 5), Exchange.CONSISTENCY)
    _, _, void = played(cheating(Exchange.CONSISTENCY), signed=True, lost=lost)
    assert void == "4 clients signed the survivors, and 5 are needed"


@pytest.mark.parametrize("forged", [bytes(64), identity(3).sign(b"x"), b"", None])
def test_a_bad_signature_is_refused_and_the_others_suffice(forged):
    tamper = cheating(Exchange.CONSISTENCY, signature=lambda _: forged)
    vectors, outcome, void = played(tamper, signed=True)
    assert void is None
    assert outcome.counted == set(vectors)
    assert list(outcome.refused) == [CHEAT]


@pytest.mark.parametrize("field", ["name", "share-key", "mask-key", "signature"])
def test_another_clients_signed_keys_are_no_keys_of_ones_own(field):
    """Equivocation and replay: a client poses as another, or sends what it signed elsewhere."""
    others = Session(Exchange.KEYS, size=4, signed=True, round_id=RoundId("run", 1, 2))
    stolen = others.answer(Exchange.KEYS, 3)
    vectors, outcome, void = played(
        cheating(Exchange.KEYS, **{field: lambda _: stolen[field]}), signed=True
    )
    assert void is None
    assert outcome.counted == set(vectors) - {CHEAT}
    assert "not in the roster, or did not sign" in outcome.refused[CHEAT]


def test_who_is_not_in_the_roster_is_left_out():
    vectors = ring_vectors(range(6), 4)
    outcome = run_round(vectors, roster=roster_of(range(5)))
    assert outcome.counted == set(range(5))
    assert np.array_equal(outcome.total, plain_sum(vectors, set(range(5))))


def test_repeated_offences_exclude_and_are_remembered(caplog):
    offences = Offences(2)
    with caplog.at_level(logging.WARNING):
        offences.note(3, {7: "it lied"})
        assert not offences.excludes(7)
        resumed = Offences(2)
        resumed.load_state_dict(offences.state_dict())
        resumed.note(5, {7: "it lied"})
    assert resumed.excludes(7)
    assert not resumed.excludes(8)
    assert caplog.messages == [
        "Node 7 broke the protocol in round 3 (offence 1): it lied.",
        "Node 7 broke the protocol in round 5 (offence 2): it lied, and is left out from now on.",
    ]
    never = Offences(0)
    never.note(1, dict.fromkeys(range(3), "x"))
    assert not never.excludes(1)
