"""What a client refuses, whoever asks, and what tampering costs whom."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedau_flwr.secure import (
    Exchange,
    RefusalError,
    RoundId,
    SecureClient,
    SecureRound,
    VoidRoundError,
)
from tests.fuzzing import examples

from .protocol import ROUND, plain_sum, ring_vectors, run_round

LATER = RoundId("run", 1, 2)


class Cohort:
    """Clients 0…n-1 and an honest server, stopped before an exchange of the test's choice."""

    def __init__(self, until: Exchange, size: int = 5, round_id: RoundId = ROUND):
        self.server = SecureRound(round_id, size=4, min_cohort=2)
        self.clients = {c: SecureClient(c, min_cohort=3) for c in range(size)}
        self.requests = dict.fromkeys(self.clients, self.server.keys_request())
        if until is Exchange.KEYS:
            return
        self.keys = {c: s.offer_keys(self.requests[c]) for c, s in self.clients.items()}
        self.server.collect_keys(self.keys)
        self.requests = self.server.shares_requests()
        if until is Exchange.SHARES:
            return
        self.shares = {c: s.deal_shares(self.requests[c]) for c, s in self.clients.items()}
        self.server.collect_shares(self.shares)
        self.requests = self.server.masked_requests()
        if until is Exchange.MASKED:
            return
        self.masked = {}
        for c, secure in self.clients.items():
            secure.accept_shares(self.requests[c])
            self.masked[c] = secure.mask(np.arange(4, dtype=np.uint32))
        self.server.collect_masked(self.masked)
        self.requests = self.server.unmask_requests()

    def ask(self, exchange: Exchange, request, client: int = 0):
        secure = self.clients[client]
        return {
            Exchange.KEYS: secure.offer_keys,
            Exchange.SHARES: secure.deal_shares,
            Exchange.MASKED: secure.accept_shares,
            Exchange.UNMASK: secure.unmask,
        }[exchange](request)

    def refuses(self, due: Exchange, reason: str, /, **changes):
        """Assert that client 0 refuses the changed request, and still answers the true one."""
        before = self.clients[0].state()
        with pytest.raises(RefusalError, match=reason):
            self.ask(due, {**self.requests[0], **changes})
        assert self.clients[0].state() == before


@pytest.mark.parametrize("until", Exchange)
def test_only_the_exchange_that_is_due_is_answered_and_only_once(until):
    for wrong in set(Exchange) - {until, Exchange.KEYS}:
        cohort = Cohort(until)
        with pytest.raises(RefusalError, match="not due"):
            cohort.ask(wrong, cohort.requests[0])
    cohort = Cohort(until)
    cohort.ask(until, cohort.requests[0])
    with pytest.raises(RefusalError, match=r"not due|already begun"):
        cohort.ask(until, cohort.requests[0])


@pytest.mark.parametrize("until", list(Exchange)[1:])
def test_messages_of_other_rounds_attempts_and_runs_are_refused(until):
    cohort = Cohort(until)
    for head in ({"round": 2}, {"attempt": 2}, {"run": "other"}):
        cohort.refuses(until, "belongs to round", **head)
    cohort.refuses(until, "which round", round=True)
    cohort.refuses(until, "was due, not 'unknown'", exchange="secret")
    cohort.refuses(until, "was due, not 'keys'", exchange="keys")


def test_a_round_is_begun_once_and_never_an_earlier_one():
    client = SecureClient(0)
    client.offer_keys(RoundId("run", 2, 5).begin(Exchange.KEYS))
    for attempt, number in ((2, 5), (2, 4), (1, 9)):
        with pytest.raises(RefusalError, match="already begun"):
            client.offer_keys(RoundId("run", attempt, number).begin(Exchange.KEYS))
    client.offer_keys(RoundId("run", 3, 1).begin(Exchange.KEYS))
    client.offer_keys(RoundId("another", 1, 1).begin(Exchange.KEYS))


def test_fresh_keys_every_round():
    client = SecureClient(0)
    replies = [client.offer_keys(RoundId("run", 1, r).begin(Exchange.KEYS)) for r in (1, 2)]
    keys = {reply[key] for reply in replies for key in ("share-key", "mask-key")}
    assert len(keys) == 4


def test_a_cohort_below_the_clients_own_minimum_is_refused():
    cohort = Cohort(Exchange.SHARES)
    for peers in (0, 1):
        few = {key: cohort.requests[0][key][:peers] for key in ("peers", "share-keys", "mask-keys")}
        cohort.refuses(Exchange.SHARES, f"a cohort of {peers + 1} is below", **few, threshold=1)
    with pytest.raises(ValueError, match="min_cohort=1"):
        SecureClient(0, min_cohort=1)


def test_bad_neighbourhoods_are_refused():
    cohort = Cohort(Exchange.SHARES)
    request = cohort.requests[0]
    keys = request["share-keys"]
    own = cohort.keys[0]
    exchange = Exchange.SHARES
    for threshold in (0, 1, 2, 6):
        cohort.refuses(exchange, "more than half and at most all", threshold=threshold)
    cohort.refuses(exchange, "own neighbour", peers=[0, 2, 3, 4])
    cohort.refuses(exchange, "twice", peers=[1, 1, 3, 4])
    cohort.refuses(exchange, "appears twice", **{"share-keys": [keys[1], *keys[1:]]})
    cohort.refuses(exchange, "appears twice", **{"share-keys": [own["share-key"], *keys[1:]]})
    cohort.refuses(exchange, "appears twice", **{"mask-keys": keys})
    cohort.refuses(exchange, "4 entries", **{"mask-keys": keys[:3]})
    cohort.refuses(exchange, "32 bytes", **{"share-keys": [keys[0][:31], *keys[1:]]})
    cohort.refuses(exchange, "not a valid X25519", **{"share-keys": [bytes(32), *keys[1:]]})


def test_only_neighbours_shares_are_taken_and_enough_of_them():
    cohort = Cohort(Exchange.MASKED)
    sealed = cohort.requests[0]["sealed"]
    exchange = Exchange.MASKED
    cohort.refuses(exchange, "no neighbour", peers=[1, 2, 3, 9])
    cohort.refuses(exchange, "twice", peers=[1, 1, 2, 3])
    cohort.refuses(exchange, "4 entries", sealed=sealed[:3])
    cohort.refuses(exchange, "not 92 bytes", sealed=[sealed[0][:-1], *sealed[1:]])
    cohort.refuses(exchange, "shares of 1 neighbours", peers=[1], sealed=sealed[:1])
    # Reordered: each is sealed for one sender, so only two of four still open.
    swapped = [sealed[1], sealed[0], sealed[3], sealed[2]]
    cohort.refuses(exchange, "shares of 0 neighbours are authentic", sealed=swapped)


def test_a_malicious_server_gets_one_kind_of_share_and_one_unmasking():
    cohort = Cohort(Exchange.UNMASK)
    exchange = Exchange.UNMASK
    everyone = [0, 1, 2, 3, 4]
    cohort.refuses(exchange, "both kinds", survivors=everyone, dropped=[4])
    cohort.refuses(exchange, "without its own vector", survivors=[1, 2, 3, 4], dropped=[0])
    cohort.refuses(exchange, "over 1 clients", survivors=[0], dropped=[1, 2, 3, 4])
    cohort.refuses(exchange, "over 2 clients", survivors=[0, 1], dropped=[2, 3, 4])
    cohort.refuses(exchange, "not this client's neighbourhood", survivors=[0, 1, 2, 3], dropped=[])
    cohort.refuses(exchange, "not this client's neighbourhood", survivors=[*everyone, 9])
    answer = cohort.ask(exchange, cohort.requests[0] | {"survivors": [0, 1, 2], "dropped": [3, 4]})
    assert len(answer["seed-shares"]) == 3
    assert len(answer["key-shares"]) == 2
    with pytest.raises(RefusalError, match="not due: this client's round is 'over'"):
        cohort.ask(exchange, cohort.requests[0] | {"survivors": [0, 3, 4], "dropped": [1, 2]})


@pytest.mark.parametrize("told_dead", range(2**4))
def test_two_stories_about_one_client_never_both_reach_the_threshold(told_dead):
    cohort = Cohort(Exchange.UNMASK)
    alive = cohort.requests[0]
    dead = {**alive, "survivors": [0, 1, 2, 3], "dropped": [4]}
    # Client 4 itself reveals a share of its seed at most.
    seeds, keys = 1, 0
    for client in range(4):
        story = dead if told_dead >> client & 1 else alive
        answer = cohort.ask(Exchange.UNMASK, story, client)
        seeds += 4 in answer["survivors"]
        keys += 4 in answer["dropped"]
    assert seeds + keys == 5
    assert min(seeds, keys) < 3 == cohort.server._threshold(4)


def test_no_vector_is_masked_twice_or_early():
    cohort = Cohort(Exchange.MASKED)
    vector = np.zeros(4, np.uint32)
    with pytest.raises(RefusalError, match="no vector is due"):
        cohort.clients[0].mask(vector)
    cohort.clients[0].accept_shares(cohort.requests[0])
    for bad in (np.zeros(4), np.zeros((2, 2), np.uint32), np.zeros(0, np.uint32)):
        with pytest.raises(ValueError, match="one-dimensional"):
            cohort.clients[0].mask(bad)
    _, masked = cohort.clients[0].mask(vector)
    assert not vector.any()
    assert masked.any()
    with pytest.raises(RefusalError, match="no vector is due"):
        cohort.clients[0].mask(vector)


def flip(blob: bytes) -> bytes:
    return bytes([blob[0] ^ 1]) + blob[1:]


def spoil(key, change):
    def tamper(exchange, way, client, message):
        if way == "from" and client == 2 and key in message:
            return {**message, key: change(message[key])}
        return message

    return tamper


@pytest.mark.parametrize(
    ("key", "change", "reason"),
    [
        ("share-key", lambda blob: blob[:-1], "not 32 bytes"),
        ("mask-key", lambda blob: None, "missing"),
        ("run", lambda run: "other", "belongs to round"),
        ("peers", lambda ids: ids[::-1], "not its neighbourhood"),
        ("sealed", lambda blobs: blobs[:-1], "4 entries"),
        ("sealed", lambda blobs: [blob[:-1] for blob in blobs], "92 bytes"),
        ("sealed", lambda blobs: [flip(blob) for blob in blobs], "could not open its shares"),
        ("sealed", lambda blobs: [flip(blobs[0]), *blobs[1:]], "could not open its shares"),
        ("sealed", lambda blobs: blobs[::-1], "could not open its shares"),
        ("seed-commitment", lambda blob: b"", "not 32 bytes"),
        ("spoiled", lambda ids: [99], "no neighbour"),
    ],
)
def test_a_bad_answer_costs_only_its_sender_the_round(key, change, reason):
    vectors = ring_vectors(range(1, 6), 6)
    outcome = run_round(vectors, tamper=spoil(key, change))
    assert outcome.counted == {1, 3, 4, 5}
    assert np.array_equal(outcome.total, plain_sum(vectors, outcome.counted))
    assert list(outcome.refused) == [2]
    assert reason in outcome.refused[2]


@pytest.mark.parametrize(
    ("key", "change", "reason"),
    [
        ("seed-shares", lambda blobs: [flip(blobs[0]), *blobs[1:]], "not the one that was dealt"),
        ("seed-shares", lambda blobs: blobs[::-1], "not the one that was dealt"),
        ("seed-shares", lambda blobs: blobs[:-1], "5 entries"),
        ("survivors", lambda ids: ids[::-1], "not what was asked"),
        ("round", lambda number: number + 1, "belongs to round"),
    ],
)
def test_a_bad_unmasking_is_known_by_its_sender_and_the_others_suffice(key, change, reason):
    def tamper(exchange, way, client, message):
        if exchange is Exchange.UNMASK:
            return spoil(key, change)(exchange, way, client, message)
        return message

    vectors = ring_vectors(range(1, 6), 6)
    outcome = run_round(vectors, tamper=tamper)
    assert outcome.counted == set(vectors)
    assert np.array_equal(outcome.total, plain_sum(vectors, outcome.counted))
    assert list(outcome.refused) == [2]
    assert reason in outcome.refused[2]


@pytest.mark.parametrize("vector", [np.zeros(5, np.uint32), np.zeros(4, np.uint64)])
def test_a_vector_of_another_size_or_ring_is_left_out(vector):
    cohort = Cohort(Exchange.MASKED)
    masked = {}
    for c, secure in cohort.clients.items():
        secure.accept_shares(cohort.requests[c])
        masked[c] = secure.mask(vector if c == 3 else np.ones(4, np.uint32))
    refused = cohort.server.collect_masked(masked)
    assert list(refused) == [3]
    assert "shape" in refused[3]
    requests = cohort.server.unmask_requests()
    total, _ = cohort.server.collect_unmask(
        {c: cohort.clients[c].unmask(request) for c, request in requests.items()}
    )
    assert total.tolist() == [4] * 4


def test_replayed_shares_of_an_earlier_round_are_not_authentic():
    old = Cohort(Exchange.MASKED)
    new = Cohort(Exchange.MASKED, round_id=LATER)
    request = {**new.requests[0], "sealed": old.requests[0]["sealed"]}
    with pytest.raises(RefusalError, match="shares of 0 neighbours are authentic"):
        new.ask(Exchange.MASKED, request)
    one = {**new.requests[0]}
    one["sealed"] = [old.requests[0]["sealed"][0], *one["sealed"][1:]]
    new.ask(Exchange.MASKED, one)
    assert new.clients[0].spoiled == [1]


def test_a_dealer_whose_shares_do_not_fit_its_seed_voids_the_round():
    vectors = ring_vectors(range(1, 6), 6)
    with pytest.raises(VoidRoundError, match="client 2 dealt shares that do not give its seed"):
        run_round(vectors, tamper=spoil("seed-commitment", flip))


@settings(max_examples=examples(100))
@given(st.data())
def test_any_message_is_answered_or_refused_without_a_trace(data):
    until = data.draw(st.sampled_from(Exchange))
    cohort = COHORTS[until]
    request = dict(cohort.requests[0])
    key = data.draw(st.sampled_from([*request, "peers", "survivors"]))
    value = data.draw(
        st.one_of(
            st.none(),
            st.integers(),
            st.text(max_size=5),
            st.binary(max_size=40),
            st.lists(st.integers(0, 6), max_size=6),
            st.lists(st.binary(max_size=33), max_size=5),
            st.lists(st.none(), max_size=2),
        )
    )
    secure = SecureClient(0, min_cohort=3, state=cohort.clients[0].state())
    answer = {
        Exchange.KEYS: secure.offer_keys,
        Exchange.SHARES: secure.deal_shares,
        Exchange.MASKED: secure.accept_shares,
        Exchange.UNMASK: secure.unmask,
    }[until]
    try:
        answer({**request, key: value})
    except RefusalError:
        assert secure.state() == cohort.clients[0].state()


COHORTS = {exchange: Cohort(exchange) for exchange in Exchange}
