"""What a client refuses, whoever asks, and what tampering costs whom."""

import re

import numpy as np
import pytest

from fedau_flwr.secure import (
    Exchange,
    RefusalError,
    RoundId,
    SecureClient,
    Topology,
    VoidRoundError,
)
from fedau_flwr.secure.message import cut, pack_places, pack_set

from .protocol import OPEN, Outcome, Session, plain_sum, ring_vectors, roster_of, run_round

LATER = RoundId("run", 1, 2)
KEYS = {"model": bytes(32), "config": bytes(32)}
ENTRY = 72


def keys(round_id):
    return round_id.begin(Exchange.KEYS) | KEYS


def refuses(session, due, reason, /, **changes):
    """Assert that client 0 refuses the changed request, and still answers the true one."""
    before = session.clients[0].state()
    with pytest.raises(RefusalError, match=reason):
        session.ask(due, {**session.requests[0], **changes})
    assert session.clients[0].state() == before


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("until", OPEN)
def test_only_the_exchange_that_is_due_is_answered_and_only_once(until, signed):
    for wrong in set(Exchange) - {until, Exchange.KEYS, Exchange.CONSISTENCY}:
        cohort = Session(until, signed=signed)
        with pytest.raises(RefusalError, match="not due"):
            cohort.ask(wrong, cohort.requests[0])
    cohort = Session(until, signed=signed)
    cohort.ask(until, cohort.requests[0])
    with pytest.raises(RefusalError, match=r"not due|already begun"):
        cohort.ask(until, cohort.requests[0])


@pytest.mark.parametrize("until", list(Exchange)[1:])
def test_messages_of_other_rounds_attempts_and_runs_are_refused(until):
    session = Session(until, signed=True)
    for head in ({"round": 2}, {"attempt": 2}, {"run": "other"}):
        refuses(session, until, "belongs to round", **head)
    refuses(session, until, "which round", round=True)
    refuses(session, until, "was due, not 'unknown'", exchange="secret")
    refuses(session, until, "was due, not 'unknown'", exchange=["keys"])
    refuses(session, until, "was due, not 'keys'", exchange="keys")
    refuses(session, until, "numbers from 1 on", round=2**63)
    refuses(session, until, "at most 100 letters", run="x" * 101)


def test_a_round_is_begun_once_and_never_an_earlier_one():
    client = SecureClient(0)
    client.offer_keys(keys(RoundId("run", 2, 5)))
    for attempt, number in ((2, 5), (2, 4), (1, 9)):
        with pytest.raises(RefusalError, match="already begun"):
            client.offer_keys(keys(RoundId("run", attempt, number)))
    client.offer_keys(keys(RoundId("run", 3, 1)))
    client.offer_keys(keys(RoundId("another", 1, 1)))


def test_fresh_keys_every_round():
    client = SecureClient(0)
    replies = [client.offer_keys(keys(RoundId("run", 1, r))) for r in (1, 2)]
    assert len({reply[key] for reply in replies for key in ("share-key", "mask-key")}) == 4


def test_impossible_clients_are_refused_by_name():
    with pytest.raises(ValueError, match="min_cohort is 1,"):
        SecureClient(0, min_cohort=1)
    with pytest.raises(ValueError, match="identity and roster"):
        SecureClient(0, roster=roster_of([0]))


def test_bad_cohorts_are_refused():
    session = Session(Exchange.SHARES)
    cohort = session.requests[0]["cohort"]
    entries = cut(cohort, ENTRY)
    due = Exchange.SHARES
    for threshold in (0, 1, 2, 6):
        refuses(session, due, "more than half and at most all", threshold=threshold)
    for degree in (0, 5, -1, 10**9):
        refuses(session, due, "cannot be drawn", degree=degree)
    refuses(session, due, "below this client's min_cohort=3", degree=1, threshold=2)
    refuses(session, due, "leaves this client out", cohort=cohort[ENTRY:], degree=3)
    refuses(session, due, "twice or out of order", cohort=cohort[ENTRY:] + entries[0])
    refuses(session, due, "twice or out of order", cohort=cohort[:-ENTRY] + entries[3])
    refuses(session, due, "entries of 72 bytes", cohort=cohort[:-1])
    refuses(session, due, "between 2 and 20000", cohort=entries[0])
    refuses(session, due, "between 2 and 20000", cohort=b"")
    twice = entries[1][:8] + entries[2][8:40] + entries[1][40:]
    refuses(session, due, "appears twice", cohort=cohort.replace(entries[1], twice))
    same = entries[1][:40] + entries[1][8:40]
    refuses(session, due, "appears twice", cohort=cohort.replace(entries[1], same))
    other = entries[0][:8] + bytes(31) + b"\x09" + entries[0][40:]
    refuses(session, due, "other keys of this client", cohort=other + cohort[ENTRY:])
    low = entries[1][:8] + bytes(32) + entries[1][40:]
    refuses(session, due, "not a valid X25519", cohort=cohort.replace(entries[1], low))


def test_a_cohort_below_the_clients_own_minimum_is_refused():
    session = Session(Exchange.SHARES, size=3)
    small = session.requests[0]["cohort"][: 2 * ENTRY]
    refuses(
        session,
        Exchange.SHARES,
        "below this client's min_cohort=3",
        cohort=small,
        degree=1,
        threshold=2,
    )


def test_a_graph_that_misses_the_bounds_is_refused():
    session = Session(Exchange.SHARES, size=40)
    right = session.requests[0]["degree"]
    assert right == Topology().degree(40) < 39
    refuses(
        session,
        Exchange.SHARES,
        "do not hide a client from 20% that collude",
        degree=6,
        threshold=4,
    )
    # Those who collude are twice as many for this client, and for them it takes more.
    strict = Session(Exchange.SHARES, size=40)
    strict.clients[0]._checks = type(strict.clients[0]._checks)(3, Topology(colluding=0.45), None)
    refuses(strict, Exchange.SHARES, "do not hide a client from 45% that collude")


def test_holders_are_drawn_by_the_client_whatever_the_server_wants():
    draws = set()
    for _ in range(20):
        session = Session(Exchange.SHARES, size=40)
        reply = session.ask(Exchange.SHARES, session.requests[0])
        places = {int.from_bytes(place, "big") for place in cut(reply["holders"], 4)}
        assert len(places) == session.requests[0]["degree"]
        assert 0 not in places
        draws.add(frozenset(places))
    assert len(draws) == 20


def test_only_shares_of_dealers_are_taken_and_enough_of_them():
    session = Session(Exchange.MASKED)
    request = session.requests[0]
    sealed = cut(request["sealed"], 92)
    due = Exchange.MASKED
    few = {
        k: request[k][:n]
        for k, n in (("senders", 4), ("sealed", 92), ("numbers", 4), ("commitments", 64))
    }
    refuses(session, due, "is not there", senders=pack_places([1, 2, 3, 9]))
    refuses(session, due, "twice", senders=pack_places([1, 1, 2, 3]))
    refuses(session, due, "dealt nothing", senders=pack_places([0, 2, 3, 4]))
    refuses(session, due, "leaves this client out", dealers=pack_set([1, 2, 3, 4], 5))
    refuses(
        session,
        due,
        "2 of this client and its holders are left",
        dealers=pack_set([0, 1], 5),
        **few,
    )
    refuses(session, due, "dealt nothing", dealers=pack_set([0, 1, 2, 3], 5))
    refuses(session, due, "is not there", dealers=b"\xff")
    refuses(session, due, "4 entries", sealed=b"".join(sealed[:3]))
    refuses(session, due, "4 entries", sealed=request["sealed"][:-1])
    refuses(session, due, "shares of 1 of 1 clients", **few)
    # Reordered, or with another number: each is sealed for one sender and one place.
    refuses(session, due, "shares of 0 of 4", sealed=b"".join(sealed[::-1]))
    refuses(session, due, "shares of 0 of 4", numbers=pack_places([9, 9, 9, 9]))
    refuses(session, due, "shares of 0 of 4", commitments=bytes(4 * 64))


def test_a_malicious_server_gets_one_kind_of_share_and_one_unmasking():
    session = Session(Exchange.UNMASK)
    due = Exchange.UNMASK
    for survivors, reason in (
        ([1, 2, 3, 4], "without its own vector"),
        ([0], "1 of this client and its holders are left"),
        ([0, 1], "2 of this client and its holders are left"),
    ):
        refuses(session, due, reason, survivors=pack_set(survivors, 5))
    refuses(session, due, "only with a roster", exposed=pack_places([4]))
    refuses(session, due, "is not there", survivors=b"\xff")
    request = session.requests[0] | {"survivors": pack_set([0, 1, 2], 5)}
    answer = session.ask(due, request)
    assert len(answer["seed-shares"]) == 3 * 32
    assert len(answer["key-shares"]) == 2 * 32
    assert answer["pair-keys"] == b""
    with pytest.raises(RefusalError, match="not due: this client's round is 'over'"):
        session.ask(due, request | {"survivors": pack_set([0, 3, 4], 5)})


@pytest.mark.parametrize("told_dead", range(2**4))
def test_two_stories_about_one_client_never_both_reach_the_threshold(told_dead):
    session = Session(Exchange.UNMASK)
    alive = session.requests[0]
    dead = {**alive, "survivors": pack_set([0, 1, 2, 3], 5)}
    # Client 4 itself reveals a share of its seed at most.
    seeds, keys = 1, 0
    for client in range(4):
        story = dead if told_dead >> client & 1 else alive
        answer = session.ask(Exchange.UNMASK, story, client)
        seeds += len(answer["seed-shares"]) == 5 * 32
        keys += len(answer["key-shares"]) == 32
    assert seeds + keys == 5
    assert min(seeds, keys) < 3 == session.requests[0].get("threshold", 3)


def test_no_vector_is_masked_twice_or_early():
    session = Session(Exchange.MASKED)
    vector = np.zeros(4, np.uint32)
    with pytest.raises(RefusalError, match="no vector is due"):
        session.clients[0].mask(vector)
    session.clients[0].accept_shares(session.requests[0])
    for bad in (np.zeros(4), np.zeros((2, 2), np.uint32), np.zeros(0, np.uint32)):
        with pytest.raises(ValueError, match="one-dimensional"):
            session.clients[0].mask(bad)
    _, masked = session.clients[0].mask(vector)
    assert not vector.any()
    assert masked.any()
    with pytest.raises(RefusalError, match="no vector is due"):
        session.clients[0].mask(vector)


def flip(blob: bytes) -> bytes:
    return bytes([blob[0] ^ 1]) + blob[1:]


def spoil(key, change, exchange=None):
    def tamper(now, way, client, message):
        if way == "from" and client == 2 and key in message and exchange in (None, now):
            return {**message, key: change(message[key])}
        return message

    return tamper


def flip_all(blobs):
    return b"".join(map(flip, cut(blobs, 92)))


@pytest.mark.parametrize(
    ("key", "change", "reason"),
    [
        ("share-key", lambda blob: blob[:-1], "not 32 bytes"),
        ("mask-key", lambda blob: None, "missing"),
        ("run", lambda run: "other", "belongs to round"),
        ("roster", lambda digest: b"\x01" * 32, "its roster is not the server's"),
        ("holders", lambda places: places[:-4], "must name 4 clients"),
        ("holders", lambda places: places[:4] * 4, "twice"),
        ("holders", lambda places: places[:-4] + pack_places([1]), "itself|twice"),
        ("sealed", lambda blobs: blobs[:-1], "4 entries"),
        ("seed-commitment", lambda blob: b"", "not 32 bytes"),
        ("commitments", lambda blobs: blobs[:-64], "5 entries"),
        ("spoiled", lambda ids: pack_places([99]), "not there"),
        ("spoiled", lambda ids: pack_places([1]), "dealt it nothing"),
    ],
)
def test_a_bad_answer_costs_only_its_sender_the_round(key, change, reason):
    vectors = ring_vectors(range(1, 6), 6)
    outcome = run_round(vectors, tamper=spoil(key, change))
    assert outcome.counted == {1, 3, 4, 5}
    assert np.array_equal(outcome.total, plain_sum(vectors, outcome.counted))
    assert list(outcome.refused) == [2]
    assert re.search(reason, outcome.refused[2])
    assert outcome.offences == {}


@pytest.mark.parametrize(
    ("key", "change", "reason"),
    [
        ("seed-shares", lambda blobs: blobs[:-1], "5 entries"),
        ("key-shares", lambda blobs: bytes(32), "0 entries"),
        ("pair-keys", lambda blobs: bytes(32), "0 entries"),
        ("round", lambda number: number + 1, "belongs to round"),
    ],
)
def test_a_bad_unmasking_is_refused_and_the_others_suffice(key, change, reason):
    vectors = ring_vectors(range(1, 6), 6)
    outcome = run_round(vectors, tamper=spoil(key, change, Exchange.UNMASK))
    assert outcome.counted == set(vectors)
    assert np.array_equal(outcome.total, plain_sum(vectors, outcome.counted))
    assert list(outcome.refused) == [2]
    assert reason in outcome.refused[2]


def test_a_wrong_share_is_known_by_its_sender_and_the_others_are_taken():
    vectors = ring_vectors(range(1, 6), 6)
    tamper = spoil("seed-shares", flip, Exchange.UNMASK)
    # With client 1 gone, exactly three are left: without the other shares of client 2 the round
    # would be void.
    lost = {1: Exchange.UNMASK, 3: Exchange.UNMASK}
    with pytest.raises(VoidRoundError, match="2 shares of client 1 are there, and 3 are needed"):
        run_round(vectors, tamper=tamper, lost=lost)
    outcome = run_round(vectors, tamper=tamper, lost={3: Exchange.UNMASK})
    assert np.array_equal(outcome.total, plain_sum(vectors, set(vectors)))
    assert outcome.offences == {2: "it revealed another share than the one that it was dealt"}


@pytest.mark.parametrize(
    "vector",
    [np.zeros(5, np.uint32), np.zeros(4, np.uint64), np.zeros(4), None, "text", [0, 0, 0, 0]],
)
def test_a_vector_of_another_size_or_ring_is_left_out(vector):
    session = Session(Exchange.MASKED)
    masked = {c: session.answer(Exchange.MASKED, c) for c in session.clients}
    masked[3] = (masked[3][0], vector)
    refused = session.server.collect_masked(masked)
    assert list(refused) == [3]
    assert refused[3] == "its vector is not one of 4 values of uint32"
    requests = session.server.unmask_requests()
    total, _ = session.server.collect_unmask(
        {c: session.clients[c].unmask(request) for c, request in requests.items()}
    )
    assert total.tolist() == [7, 11, 15, 19]


def test_replayed_shares_of_an_earlier_round_are_not_authentic():
    old = Session(Exchange.MASKED)
    new = Session(Exchange.MASKED, round_id=LATER)
    request = {**new.requests[0], "sealed": old.requests[0]["sealed"]}
    with pytest.raises(RefusalError, match="shares of 0 of 4 clients are authentic"):
        new.ask(Exchange.MASKED, request)
    sealed = new.requests[0]["sealed"]
    new.ask(Exchange.MASKED, {**request, "sealed": request["sealed"][:92] + sealed[92:]})
    assert new.clients[0].spoiled == [1]


def test_a_dealer_whose_shares_do_not_fit_its_seed_voids_the_round_and_is_named():
    vectors = ring_vectors(range(1, 6), 6)
    outcome = Outcome(np.zeros(6, np.uint32))
    with pytest.raises(VoidRoundError, match="client 2 dealt shares that do not give its seed"):
        run_round(vectors, tamper=spoil("seed-commitment", flip), outcome=outcome)
    assert outcome.offences == {2: "it dealt shares that do not give its seed"}
