"""What the server and t-1 colluding clients hold looks like noise."""

import json
import logging

import numpy as np
import pytest
from scipy.stats import chisquare

from fedau_flwr.secure import Exchange, RefusalError, RoundId, SecureClient, VoidRoundError
from fedau_flwr.secure.client_state import ClientState
from fedau_flwr.secure.crypto import Purpose, apply_masks, combine, derive, generate, seal, unseal

from .protocol import ROUND, plain_sum, ring_vectors, run_round

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


def test_without_the_self_masks_the_pairwise_masks_still_hide_each_vector():
    secrets = {client: np.zeros(WORDS, np.uint32) for client in range(3)}
    outcome = run_round(secrets)
    shares = {c: outcome.replies[Exchange.UNMASK][c] for c in secrets}
    for dealer in secrets:
        pieces = {
            position + 1: reply["seed-shares"][reply["survivors"].index(dealer)]
            for position, reply in shares.items()
        }
        seed = combine(pieces, 2)
        unmasked = outcome.masked[dealer].copy()
        apply_masks(unmasked, minus=[derive(seed, Purpose.SELF_MASK, ROUND.binding(dealer))])
        assert looks_uniform(unmasked)
    assert not outcome.total.any()


def test_one_share_too_few_leaves_the_self_mask_on():
    vectors = {client: np.zeros(WORDS, np.uint32) for client in range(5)}
    outcome = run_round(vectors)
    replies = outcome.replies[Exchange.UNMASK]
    pieces = {
        position: replies[position - 1]["seed-shares"][replies[position - 1]["survivors"].index(0)]
        for position in (1, 2, 3)
    }
    binding = ROUND.binding(0)
    total = sum(outcome.masked.values())
    apply_masks(total, minus=[derive(combine(pieces, 3), Purpose.SELF_MASK, binding)])
    fewer = sum(outcome.masked.values())
    del pieces[3]
    apply_masks(fewer, minus=[derive(combine(pieces, 2), Purpose.SELF_MASK, binding)])
    assert not np.array_equal(total, fewer)
    assert looks_uniform(fewer)


def test_too_few_unmaskings_void_the_round():
    vectors = ring_vectors(range(5), 3)
    lost = dict.fromkeys(range(3), Exchange.UNMASK)
    with pytest.raises(VoidRoundError, match="2 shares of client 0 are there, and 3 are needed"):
        run_round(vectors, lost=lost)
    outcome = run_round(vectors, lost=dict.fromkeys(range(2), Exchange.UNMASK))
    assert np.array_equal(outcome.total, plain_sum(vectors, set(vectors)))


def test_purposes_rounds_and_pairs_have_keys_of_their_own():
    secret = bytes(32)
    bindings = [
        RoundId("a", 1, 1).binding(1, 2),
        RoundId("a", 1, 1).binding(2, 1),
        RoundId("a", 1, 2).binding(1, 2),
        RoundId("a", 2, 1).binding(1, 2),
        RoundId("b", 1, 1).binding(1, 2),
        RoundId("a", 1, 1).binding(12),
    ]
    keys = {derive(secret, purpose, binding) for purpose in Purpose for binding in bindings}
    assert len(keys) == len(Purpose) * len(bindings)


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


def test_a_finished_or_restarted_round_leaves_no_secret_behind(caplog):
    caplog.set_level(logging.DEBUG)
    client = SecureClient(1, min_cohort=2)
    client.offer_keys(ROUND.begin(Exchange.KEYS))
    secrets = secrets_in(client.state())
    assert len(secrets) == 2
    client.offer_keys(RoundId("run", 1, 2).begin(Exchange.KEYS))
    assert not secrets & secrets_in(client.state())

    states = []
    vectors = ring_vectors(range(3), 3)
    clients = {c: SecureClient(c, min_cohort=2) for c in vectors}
    run_round(vectors, clients=clients, watch_state=lambda *seen: states.append(seen))
    by_exchange = {exchange: secrets_in(state) for exchange, c, state in states if c == 0}
    # The keys and the seed are gone once they made the masks, the peers' shares once revealed.
    assert not by_exchange[Exchange.MASKED] & by_exchange[Exchange.KEYS]
    assert by_exchange[Exchange.MASKED]
    assert by_exchange[Exchange.UNMASK] == set()
    assert caplog.text == ""


def secrets_in(state):
    """Return every long hexadecimal string of a stored state."""
    found = set()
    for kind, value in json.loads(state).values():
        if kind in ("bytes", "blobs"):
            found |= {value} if isinstance(value, str) else set(value)
    return found - {""}


def test_neither_client_nor_state_shows_its_secrets():
    client = SecureClient(1)
    client.offer_keys(ROUND.begin(Exchange.KEYS))
    for secret in secrets_in(client.state()):
        for text in (repr(client), str(client), repr(ClientState.from_bytes(client.state()))):
            assert secret not in text
            assert repr(bytes.fromhex(secret)) not in text
