"""Attacks by a server that does not follow the protocol, and what each would have told it.

Each attack is first carried out where it works: without a roster, or with the protection that stops
it taken away. Then it is tried against the protocol as it is, and fails.
"""

import random
from hashlib import sha256

import numpy as np
import pytest

from fedau_flwr.secure import Exchange, RefusalError, Roster, RoundId, SecureClient, VoidRoundError
from fedau_flwr.secure.cohort import Cohort, Terms, bind, survivors_statement
from fedau_flwr.secure.crypto import Agreement, Purpose, apply_masks, derive
from fedau_flwr.secure.dealing import pairwise_key
from fedau_flwr.secure.message import cut, pack_set
from fedau_flwr.secure.shamir import combine

from .protocol import (
    ROUND,
    Outcome,
    Session,
    answer,
    identity,
    plain_sum,
    ring_vectors,
    roster_of,
    run_round,
)

SECRET = np.array([3, 1, 4, 1], np.uint32)


def test_puppets_of_the_server_do_not_count_as_peers():
    """The server plays four of five clients: the sum less their vectors is the fifth's vector."""
    vectors = ring_vectors(range(5), 4) | {0: SECRET}
    outcome = run_round(vectors)
    puppets = plain_sum(vectors, {1, 2, 3, 4})
    assert np.array_equal(outcome.total - puppets, SECRET)

    # The server's own roster lists its puppets, and the victim has one from somebody it trusts.
    session = Session(Exchange.SHARES, signed=True)
    honest = roster_of([0, *range(10, 14)])
    victim = SecureClient(0, identity=identity(0), roster=honest)
    session.clients[0] = victim
    victim.offer_keys(session.server.keys_request())
    with pytest.raises(RefusalError, match="not in this client's roster"):
        victim.deal_shares(rewritten(session.requests[0], victim))


def rewritten(request, victim):
    """Return a list of members with the victim's true keys and signature in it."""
    state = victim._state
    cohort = Cohort.of(request, signed=True)
    fresh = [
        Agreement(k)._private.public_key().public_bytes_raw()
        for k in (state.share_private, state.mask_private)
    ]
    own = cohort.members[0]._replace(share_key=fresh[0], mask_key=fresh[1])
    own = own._replace(signature=identity(0).sign(state.terms.statement(own)))
    return request | Cohort([own, *cohort.members[1:]]).to_fields()


def tell_model(others):
    """Tell some clients that the round is about another model."""

    def tamper(exchange, way, client, message):
        if exchange is Exchange.KEYS and way == "to" and client in others:
            return {**message, "model": b"\x01" * 32}
        return message

    return tamper


def test_two_models_in_one_round_do_not_open_each_others_shares(monkeypatch):
    """Clients 1 to 4 get a model at which their updates vanish: the sum is the victim's update."""
    vectors = dict.fromkeys(range(1, 5), np.zeros(4, np.uint32)) | {0: SECRET}
    tamper = tell_model({1, 2, 3, 4})
    with monkeypatch.context() as unbound:
        # As in 0.1, where keys were not bound to the model.
        unbound.setattr(Terms, "digest", lambda self: bytes(32))
        assert np.array_equal(run_round(vectors, tamper=tamper).total, SECRET)

    outcome = Outcome(SECRET)
    with pytest.raises(VoidRoundError, match="good shares of client 0"):
        run_round(vectors, tamper=tamper, outcome=outcome)
    assert "shares of 0 of 4 clients are authentic" in outcome.refused[0]
    assert 0 not in outcome.masked
    # With a roster nobody even deals shares: the statements of the others do not verify.
    refusals = {}
    for client in (0, 1):
        session = Session(Exchange.KEYS, signed=True)
        told = tell_model({1, 2, 3, 4})
        replies = {
            c: answer(s, Exchange.KEYS, told(Exchange.KEYS, "to", c, session.requests[c]))
            for c, s in session.clients.items()
        }
        request = signed_list(replies)
        with pytest.raises(RefusalError, match="did not sign the same round, model") as refused:
            session.clients[client].deal_shares(request)
        refusals[client] = str(refused.value)
    assert "client 1 " in refusals[0]
    assert "client 0 " in refusals[1]


def signed_list(replies):
    """Return the second request as a server that checks nothing would put it together."""
    cohort = b"".join(
        c.to_bytes(8, "big") + r["share-key"] + r["mask-key"] for c, r in sorted(replies.items())
    )
    return ROUND.begin(Exchange.SHARES) | {
        "cohort": cohort,
        "names": "\n".join(reply["name"] for _, reply in sorted(replies.items())),
        "signatures": b"".join(reply["signature"] for _, reply in sorted(replies.items())),
        "degree": len(replies) - 1,
        "threshold": len(replies) // 2 + 1,
    }


STORIES = {0: range(5), 3: range(5), 1: range(1, 5), 2: range(1, 5)}
"""Clients 1 and 2 hear that client 0 dropped out, and the others that it did not."""


def masked_session(signed):
    session = Session(Exchange.MASKED, signed=signed)
    dealt = session.replies
    vectors = {c: s.mask for c, s in session.clients.items()}
    masked = {}
    for c, secure in session.clients.items():
        secure.accept_shares(session.requests[c])
        masked[c] = vectors[c](SECRET if c == 0 else np.full(4, c, np.uint32))
    session.server.collect_masked(masked)
    return session, dealt, masked


def revealed(session, dealt, stories, field, kind):
    """Return the shares of client 0's secret that the server gets, by number."""
    places = [int.from_bytes(place, "big") for place in cut(dealt[0]["holders"], 4)]
    numbers = {holder: number for number, holder in enumerate([*places, 0], 1)}
    found = {}
    for client, reply in stories.items():
        dropped = 0 not in STORIES.get(client, ())
        if dropped == (kind == "key"):
            found[numbers[client]] = reply[field][:32]
    return found, numbers


def test_two_stories_about_one_client_are_not_both_believed():
    """With one client's help, both secrets of client 0 reach three of five shares: its vector."""
    session, dealt, masked = masked_session(signed=False)
    replies = {
        c: session.clients[c].unmask(
            ROUND.begin(Exchange.UNMASK) | {"survivors": pack_set(STORIES[c], 5), "exposed": b""}
        )
        for c in STORIES
    }
    seeds, numbers = revealed(session, dealt, replies, "seed-shares", "seed")
    keys, _ = revealed(session, dealt, replies, "key-shares", "key")
    helper = session.clients[4]._state
    place = helper.held.index(0)
    seeds[numbers[4]] = cut(helper.seed_shares, 32)[place + 1]
    keys[numbers[4]] = cut(helper.key_shares, 32)[place]
    stolen = masked[0][1].copy()
    cohort = Cohort.of(session.server.shares_requests()[0], signed=False)
    transcript = cohort.transcript(Terms(ROUND, bytes(32), bytes(32)))
    private = Agreement(combine(keys, 3, 5))
    pairs = [
        pairwise_key(private, transcript, cohort.members[c].mask_key, 0, c) for c in range(1, 5)
    ]
    own = derive(combine(seeds, 3, 5), Purpose.SELF_MASK, bind(transcript, 0))
    apply_masks(stolen, plus=pairs, minus=[own])
    assert np.array_equal(stolen, SECRET)

    # With a roster both stories are signed by three, the helper included, and four are needed.
    session, _, _ = masked_session(signed=True)
    signatures = {}
    for story in (range(5), range(1, 5)):
        told = pack_set(story, 5)
        request = ROUND.begin(Exchange.CONSISTENCY) | {"survivors": told}
        for client in (c for c, heard in STORIES.items() if heard == story):
            signatures[client] = session.clients[client].sign_survivors(request)["signature"]
        signers = sorted([c for c, heard in STORIES.items() if heard == story] + [4])
        statement = survivors_statement(session.clients[0]._state.transcript, told)
        signatures[4] = identity(4).sign(statement)
        request = ROUND.begin(Exchange.UNMASK) | {
            "survivors": told,
            "exposed": b"",
            "signers": pack_set(signers, 5),
            "signatures": b"".join(signatures[c] for c in signers),
        }
        for client in (c for c, heard in STORIES.items() if heard == story):
            with pytest.raises(RefusalError, match="3 clients signed the survivors, and 4 are"):
                session.clients[client].unmask(request)


def test_withheld_forged_and_borrowed_signatures_unmask_nothing():
    """Without the check, any story is unmasked: see the two stories above."""
    session = Session(Exchange.UNMASK, signed=True)
    request, client = session.requests[0], session.clients[0]
    signatures = cut(request["signatures"], 64)
    assert len(signatures) == 4

    def refuses(reason, **changes):
        before = client.state()
        with pytest.raises(RefusalError, match=reason):
            client.unmask({**request, **changes})
        assert client.state() == before

    refuses("3 clients signed", signers=b"\x07", signatures=b"".join(signatures[:3]))
    refuses("did not sign", signatures=b"".join([*signatures[:3], signatures[0]]))
    refuses("did not sign", signatures=b"".join([*signatures[:3], bytes(64)]))
    other = identity(3).sign(b"another statement")
    refuses("did not sign", signatures=b"".join([*signatures[:3], other]))
    refuses("not those that this client signed", survivors=pack_set([0, 1, 2, 3], 5))
    refuses("'signers' is missing", signers=b"")
    assert client.unmask(request)


def test_the_consistency_check_is_not_skipped_and_signs_once():
    session = Session(Exchange.CONSISTENCY, signed=True)
    client, request = session.clients[0], session.requests[0]
    everyone = ROUND.begin(Exchange.UNMASK) | {"survivors": request["survivors"], "exposed": b""}
    with pytest.raises(RefusalError, match="'unmask' is not due: this client's round is 'masked'"):
        client.unmask(everyone)
    for story, reason in (
        ([1, 2, 3, 4], "without its own vector"),
        ([0, 1, 2], "over 3 clients, and 4 are needed"),
    ):
        with pytest.raises(RefusalError, match=reason):
            client.sign_survivors({**request, "survivors": pack_set(story, 5)})
    client.sign_survivors(request)
    with pytest.raises(RefusalError, match="'consistency' is not due"):
        client.sign_survivors({**request, "survivors": pack_set([0, 1, 2, 3], 5)})


def test_a_biased_graph_is_not_the_servers_to_choose(monkeypatch):
    """Were the holders the server's choice, its eight helpers of forty would hold the secrets."""
    helpers = set(range(1, 9))

    def captured(session):
        reply = session.ask(Exchange.SHARES, session.requests[0])
        places = {int.from_bytes(place, "big") for place in cut(reply["holders"], 4)}
        return len(places & helpers) >= session.requests[0]["threshold"]

    session = Session(Exchange.SHARES, size=40)
    # Few holders, helpers all of them: what 0.1's clients took, which only saw their neighbours.
    few = {"degree": 8, "threshold": 5}
    with pytest.raises(RefusalError, match="do not hide a client from 20% that collude"):
        session.ask(Exchange.SHARES, session.requests[0] | few)
    for _ in range(10):
        wanted = {"holders": b"".join(h.to_bytes(4, "big") for h in helpers)}
        session = Session(Exchange.SHARES, size=40)
        session.requests[0] = session.requests[0] | wanted
        assert not captured(session)
    monkeypatch.setattr("random.SystemRandom.sample", lambda self, others, k: sorted(others)[:k])
    session = Session(Exchange.SHARES, size=40)
    reply = session.ask(Exchange.SHARES, session.requests[0])
    places = [int.from_bytes(place, "big") for place in cut(reply["holders"], 4)]
    assert helpers <= set(places)


def test_whoever_speaks_last_has_no_say_in_the_graph(monkeypatch):
    """If the hash of all keys made the graph, a helper would try keys until the graph suits it."""
    helpers, rng = range(1, 9), random.Random(1)
    ids = {place: rng.randbytes(32) for place in range(40)}

    def helpers_around_the_victim(last_key):
        seed = sha256(b"".join(ids.values()) + last_key).digest()
        circle = sorted(ids, key=lambda place: sha256(seed + ids[place]).digest())
        at = circle.index(0)
        hood = {circle[(at + step) % 40] for step in range(-4, 5)}
        return len(hood.intersection(helpers))

    tries = [helpers_around_the_victim(rng.randbytes(32)) for _ in range(3000)]
    assert max(tries) >= 5 > np.mean(tries) * 2

    # Here the victim draws by itself: the same whatever the others' keys are.
    draws = set()
    for _ in range(3):
        seeded = random.Random(7)
        monkeypatch.setattr(
            "random.SystemRandom.sample", lambda self, o, k, r=seeded: r.sample(o, k)
        )
        session = Session(Exchange.SHARES, size=40)
        draws.add(session.ask(Exchange.SHARES, session.requests[0])["holders"])
    assert len(draws) == 1


@pytest.mark.parametrize("later", [RoundId("run", 1, 2), RoundId("run", 2, 1)])
def test_keys_of_another_round_or_attempt_are_not_taken_again(later):
    """With old keys whose secrets it has recovered since, the server would know all masks."""
    old = Session(Exchange.KEYS, signed=True)
    stale = {c: old.answer(Exchange.KEYS, c) for c in old.clients}
    new = Session(Exchange.SHARES, signed=True, round_id=later)
    fresh = new.requests[0]
    members = Cohort.of(signed_list(stale), signed=True).members
    mixed = Cohort([*Cohort.of(fresh, signed=True).members[:1], *members[1:]])
    with pytest.raises(RefusalError, match="did not sign the same round"):
        new.clients[0].deal_shares(fresh | mixed.to_fields())
    # Without signatures the same list is taken.
    old, new = Session(Exchange.KEYS), Session(Exchange.SHARES, round_id=later)
    stale = {c: old.answer(Exchange.KEYS, c) for c in old.clients}
    members = Cohort.of(signed_list(stale), signed=False).members
    mixed = Cohort([*Cohort.of(new.requests[0], signed=False).members[:1], *members[1:]])
    assert new.clients[0].deal_shares(new.requests[0] | mixed.to_fields())


def test_signed_survivors_of_another_round_are_no_signatures_here():
    """They would stand for the clients that the server let sign another set before."""
    old = Session(Exchange.UNMASK, signed=True)
    new = Session(Exchange.UNMASK, signed=True, round_id=RoundId("run", 1, 2))
    stolen = {**new.requests[0], "signatures": old.requests[0]["signatures"]}
    with pytest.raises(RefusalError, match="did not sign these survivors"):
        new.clients[0].unmask(stolen)


def test_a_swapped_roster_is_noticed():
    """A roster with a puppet in it, given to some clients, would have them take the puppet."""
    swapped = Roster({**roster_of(range(5))._keys, "puppet": identity(9).public})
    clients = {
        c: SecureClient(c, identity=identity(c), roster=roster_of(range(5))) for c in range(4)
    }
    clients[4] = SecureClient(4, identity=identity(4), roster=swapped)
    request = ROUND.begin(Exchange.KEYS) | {"model": bytes(32), "config": bytes(32)}
    replies = {c: secure.offer_keys(request) for c, secure in clients.items()}
    listed = signed_list(replies)
    for secure in clients.values():
        with pytest.raises(RefusalError, match="same round, model, config and roster"):
            secure.deal_shares(listed)


def test_a_client_is_not_moved_under_another_name_or_id():
    session = Session(Exchange.SHARES, signed=True)
    request = session.requests[0]
    names = request["names"].split("\n")
    swapped = "\n".join([names[0], names[2], names[1], *names[3:]])
    with pytest.raises(RefusalError, match="not in this client's roster"):
        session.ask(Exchange.SHARES, {**request, "names": swapped})
    cohort = bytearray(request["cohort"])
    cohort[-65] = 99
    with pytest.raises(RefusalError, match="not in this client's roster"):
        session.ask(Exchange.SHARES, {**request, "cohort": bytes(cohort)})
    twice = "\n".join([*names[:4], names[3]])
    with pytest.raises(RefusalError, match="must name each client once"):
        session.ask(Exchange.SHARES, {**request, "names": twice})


def test_masks_of_clients_in_the_sum_are_not_given_away_one_by_one():
    """Were they, the masks of one client could be taken off its vector alone."""
    session = Session(Exchange.UNMASK, signed=True)
    everyone = b"".join(place.to_bytes(4, "big") for place in (1, 2, 3, 4))
    with pytest.raises(RefusalError, match="two clients in the sum"):
        session.ask(Exchange.UNMASK, {**session.requests[0], "exposed": everyone})
