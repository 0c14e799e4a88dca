"""What the server and t-1 colluding clients hold looks like noise."""

import json
import logging

import numpy as np
import pytest
from scipy.stats import chisquare

from fedau_flwr.secure import Exchange, RefusalError, RoundId, SecureClient, VoidRoundError
from fedau_flwr.secure.client_state import ClientState
from fedau_flwr.secure.cohort import Cohort, Member, Terms, bind
from fedau_flwr.secure.crypto import Purpose, apply_masks, derive, generate, seal, unseal
from fedau_flwr.secure.message import cut
from fedau_flwr.secure.shamir import combine

from .protocol import ROUND, plain_sum, ring_vectors, roster_of, run_round

KEYS = {"model": bytes(32), "config": bytes(32)}

WORDS = 20_000


def looks_uniform(vector):
    counts = np.bincount(vector.view(np.uint8), minlength=256)
    return chisquare(counts).pvalue > 1e-6


def masked_vectors(value, cohort=4):
    vectors = {client: np.full(WORDS, value, np.uint32) for client in range(cohort)}
    return run_round(vectors).masked


@pytest.mark.parametrize("value", [0, 1, 2**32 - 1])
def test_masked_vectors_look_uniform_whatever_is_in_them(value):
    masked = masked_vectors(value)
    assert all(looks_uniform(vector) for vector in masked.values())
    # Sums over fewer than all survivors keep masks that nobody cancels.
    assert looks_uniform(masked[0] + masked[1])
    assert looks_uniform(masked[0] + masked[1] + masked[2])
    # Even the sum over all keeps the self masks.
    assert looks_uniform(sum(masked.values()))


def test_two_runs_of_the_same_input_have_nothing_in_common():
    first, second = masked_vectors(7), masked_vectors(7)
    for client, vector in first.items():
        same = np.count_nonzero(vector == second[client])
        # 20,000 words agree by chance with probability 2^-32 each.
        assert same <= 1
        assert looks_uniform(vector - second[client])


def revealed_seed_shares(outcome, dealer, cohort):
    """Return what the server sees of one seed, by number, as it was dealt in a complete graph."""
    dealt = cut(outcome.replies[Exchange.SHARES][dealer]["holders"], 4)
    numbers = {int.from_bytes(place, "big"): number for number, place in enumerate(dealt, 1)}
    numbers[dealer] = cohort
    return {
        numbers[holder]: cut(reply["seed-shares"], 32)[dealer]
        for holder, reply in outcome.replies[Exchange.UNMASK].items()
    }


def transcript_of(outcome):
    request = outcome.requests[Exchange.SHARES][0]
    terms = Terms(ROUND, bytes(32), bytes(32))
    return Cohort.of(request, signed=False).transcript(terms)


def test_without_the_self_masks_the_pairwise_masks_still_hide_each_vector():
    secrets = {client: np.zeros(WORDS, np.uint32) for client in range(3)}
    outcome = run_round(secrets)
    for dealer in secrets:
        seed = combine(revealed_seed_shares(outcome, dealer, 3), 2, 3)
        unmasked = outcome.masked[dealer].copy()
        binding = bind(transcript_of(outcome), dealer)
        apply_masks(unmasked, minus=[derive(seed, Purpose.SELF_MASK, binding)])
        assert looks_uniform(unmasked)
        secrets[dealer] = unmasked
    # They were the right seeds: nothing is left in the sum.
    assert not sum(secrets.values()).any()
    assert not outcome.total.any()


def test_one_share_too_few_leaves_the_self_mask_on():
    vectors = {client: np.zeros(WORDS, np.uint32) for client in range(5)}
    outcome = run_round(vectors)
    pieces = dict(sorted(revealed_seed_shares(outcome, 0, 5).items())[:3])
    binding = bind(transcript_of(outcome), 0)
    total = sum(outcome.masked.values())
    right = derive(combine(pieces, 3, 5), Purpose.SELF_MASK, binding)
    pieces.popitem()
    wrong = derive(combine(pieces, 2, 5), Purpose.SELF_MASK, binding)
    fewer = total.copy()
    apply_masks(total, minus=[right])
    apply_masks(fewer, minus=[wrong])
    assert not np.array_equal(total, fewer)
    assert looks_uniform(fewer)


def test_too_few_unmaskings_void_the_round():
    vectors = ring_vectors(range(5), 3)
    lost = dict.fromkeys(range(3), Exchange.UNMASK)
    with pytest.raises(VoidRoundError, match="2 shares of client 0 are there, and 3 are needed"):
        run_round(vectors, lost=lost)
    outcome = run_round(vectors, lost=dict.fromkeys(range(2), Exchange.UNMASK))
    assert np.array_equal(outcome.total, plain_sum(vectors, set(vectors)))


def test_purposes_terms_and_pairs_have_keys_of_their_own():
    secret = bytes(32)
    members = [Member(client, *(generate()[1] for _ in range(2))) for client in (1, 2)]
    other = [members[0], members[1]._replace(client=3)]
    one = bytes(31) + b"\x01"
    terms = [
        Terms(ROUND, bytes(32), bytes(32)),
        Terms(RoundId("run", 1, 2), bytes(32), bytes(32)),
        Terms(RoundId("run", 2, 1), bytes(32), bytes(32)),
        Terms(RoundId("other", 1, 1), bytes(32), bytes(32)),
        Terms(ROUND, one, bytes(32)),
        Terms(ROUND, bytes(32), one),
        Terms(ROUND, bytes(32), bytes(32), one),
    ]
    transcripts = [Cohort(members).transcript(t) for t in terms]
    transcripts.append(Cohort(other).transcript(terms[0]))
    bindings = [bind(t, *places) for t in transcripts for places in ((0, 1), (1, 0), (1,))]
    keys = {derive(secret, purpose, binding) for purpose in Purpose for binding in bindings}
    assert len(keys) == len(Purpose) * 8 * 3


def test_sealed_shares_open_only_as_they_were_sealed():
    key, other = generate()[0], generate()[0]
    sealed = seal(key, b"x" * 64, b"1 to 2")
    assert unseal(key, sealed, b"1 to 2") == b"x" * 64
    assert seal(key, b"x" * 64, b"1 to 2") != sealed
    for k, blob, binding in (
        (other, sealed, b"1 to 2"),
        (key, sealed, b"2 to 1"),
        (key, sealed[:-1] + bytes([sealed[-1] ^ 1]), b"1 to 2"),
        (key, sealed[:-1], b"1 to 2"),
        (key, b"", b"1 to 2"),
    ):
        with pytest.raises(RefusalError, match="not authentic"):
            unseal(k, blob, binding)


@pytest.mark.parametrize("signed", [False, True])
def test_a_finished_or_restarted_round_leaves_no_secret_behind(signed, caplog):
    caplog.set_level(logging.DEBUG)
    client = SecureClient(1, min_cohort=2)
    client.offer_keys(ROUND.begin(Exchange.KEYS) | KEYS)
    secrets = secrets_in(client.state())
    assert len(secrets) == 2
    client.offer_keys(RoundId("run", 1, 2).begin(Exchange.KEYS) | KEYS)
    assert not secrets & secrets_in(client.state())

    states = []
    vectors = ring_vectors(range(3), 3)
    run_round(
        vectors,
        watch_state=lambda *seen: states.append(seen),
        roster=roster_of(vectors) if signed else None,
    )
    by_exchange = {exchange: secrets_in(state) for exchange, c, state in states if c == 0}
    # The keys and the seed are gone once they made the masks, the peers' shares once revealed.
    assert len(by_exchange[Exchange.SHARES]) == 4
    assert not by_exchange[Exchange.MASKED] & by_exchange[Exchange.KEYS]
    assert len(by_exchange[Exchange.MASKED]) == (3 if signed else 2)
    assert by_exchange[Exchange.UNMASK] == set()
    assert caplog.text == ""


PUBLIC = {"hashes", "transcript", "public_keys", "dealers", "survivors"}


def secrets_in(state):
    """Return every secret of a stored state, in hexadecimal."""
    values = json.loads(state).items()
    return {value for key, (kind, value) in values if kind == "bytes" and key not in PUBLIC}


def test_neither_client_nor_state_shows_its_secrets():
    client = SecureClient(1)
    client.offer_keys(ROUND.begin(Exchange.KEYS) | KEYS)
    for secret in secrets_in(client.state()):
        for text in (repr(client), str(client), repr(ClientState.from_bytes(client.state()))):
            assert secret not in text
            assert repr(bytes.fromhex(secret)) not in text
