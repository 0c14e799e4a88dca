"""Secure sums with a roster, through strategies, mods and node configs."""

import functools
import logging

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedau_flwr import FedAU, FedAUMod
from fedau_flwr.secure import Exchange, Identity, Roster, SecureSum, SecureSumMod
from fedau_flwr.secure.mod import RECORD
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.records import encode

CLIENTS = 5
POPULATION = 8  # a power of two, by which floats divide exactly
Impatient = functools.partial(SecureSum, exchange_timeout=0.02)


class Federation(InProcessGrid):
    """Nodes with keys, the first `CLIENTS` of which are in the roster."""

    def __init__(self, tmp_path, *, strangers=0, lost=None):
        app = ClientApp(mods=[SecureSumMod(), FedAUMod()])

        @app.train()
        def train(message: Message, context: Context) -> Message:
            x = message.content["arrays"]["x"].numpy()
            step = np.float32(2.0 ** -int(context.node_config["partition-id"]))
            return Message(RecordDict({"arrays": encode({"x": x + step})}), reply_to=message)

        super().__init__(app, 0)
        self.lost = lost or {}
        self.path = tmp_path / "roster.toml"
        for client in range(CLIENTS + strangers):
            directory = tmp_path / f"client-{client}"
            made = Identity.create(directory, directory.name)
            if client < CLIENTS:
                (tmp_path / f"{client}.pub").write_text(made.line)
            self.connect(
                {
                    "partition-id": client,
                    "fedau-state-dir": str(directory),
                    "fedau-roster": str(self.path),
                }
            )
        files = [tmp_path / f"{client}.pub" for client in range(CLIENTS)]
        self.path.write_text(Roster.load(*files).to_toml())
        self.nodes = list(self.contexts)

    def pull_messages(self, message_ids):
        return [
            reply
            for reply in super().pull_messages(message_ids)
            if reply.has_error()
            or self.lost.get(self.nodes.index(reply.metadata.src_node_id))
            != reply.content[RECORD]["exchange"]
        ]

    def run(self, strategy, number=1):
        model = encode({"x": np.zeros(2, np.float32)})
        messages = strategy.configure_train(number, model, ConfigRecord(), self)
        after, _ = strategy.aggregate_train(number, list(self.send_and_receive(messages)))
        return after["x"].numpy() * POPULATION


@pytest.mark.parametrize("exchange", Exchange)
def test_the_sum_of_the_survivors_is_exact_whoever_is_lost_where(exchange, tmp_path):
    grid = Federation(tmp_path, strangers=1, lost={2: exchange})
    strategy = FedAU(POPULATION, summation=Impatient(roster=grid.path))
    after = grid.run(strategy)
    in_sum = exchange in (Exchange.CONSISTENCY, Exchange.UNMASK)
    counted = [c for c in range(CLIENTS) if c != 2 or in_sum]
    assert after.tolist() == [sum(2.0**-c for c in counted)] * 2
    rounds = [strategy.ledger.counted[node] for node in grid.nodes]
    # The sixth has a key that is not in the roster, and says itself that it cannot take part.
    assert rounds == [int(c in counted) for c in range(CLIENTS + 1)]


def test_a_stranger_with_a_roster_of_its_own_is_refused(tmp_path, caplog):
    grid = Federation(tmp_path, strangers=1)
    own = tmp_path / "own.toml"
    stranger = grid.nodes[-1]
    lines = [Identity.load(tmp_path / f"client-{c}").line for c in range(CLIENTS + 1)]
    own.write_text("\n".join(lines))
    grid.contexts[stranger].node_config["fedau-roster"] = str(own)
    with caplog.at_level(logging.INFO):
        after = grid.run(FedAU(POPULATION, summation=Impatient(roster=grid.path)))
    assert after.tolist() == [sum(2.0**-c for c in range(CLIENTS))] * 2
    assert "its roster is not the server's" in caplog.text


def test_clients_with_a_roster_refuse_a_server_without_one(tmp_path, caplog):
    grid = Federation(tmp_path)
    with caplog.at_level(logging.INFO):
        after = grid.run(FedAU(POPULATION, summation=Impatient()))
    assert not after.any()
    assert "only one of them has a roster" in caplog.text
    assert "SecureSum without a roster" in caplog.text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda config: config.pop("fedau-state-dir"), "needs fedau-state-dir"),
        (lambda config: config.update({"fedau-roster": "/nowhere"}), "cannot be read"),
        (lambda config: config.update({"fedau-state-dir": "/nowhere"}), "cannot be read"),
    ],
)
def test_a_client_without_key_or_roster_says_why_in_its_log_alone(change, reason, tmp_path, caplog):
    grid = Federation(tmp_path)
    change(grid.contexts[grid.nodes[0]].node_config)
    with caplog.at_level(logging.INFO):
        after = grid.run(FedAU(POPULATION, summation=Impatient(roster=grid.path)))
    assert after.tolist() == [sum(2.0**-c for c in range(1, CLIENTS))] * 2
    assert reason in caplog.text
    assert "refused: this client cannot use its fedau-roster or its key" in caplog.text


def test_a_model_that_was_changed_after_the_keys_is_not_trained(tmp_path, caplog):
    grid = Federation(tmp_path)
    strategy = FedAU(POPULATION, summation=Impatient(roster=grid.path))
    model = encode({"x": np.zeros(2, np.float32)})
    messages = strategy.configure_train(1, model, ConfigRecord(), grid)
    messages[0].content["arrays"] = encode({"x": np.ones(2, np.float32)})
    messages[1].content["config"]["fedau-transform"] = '{"name": "other"}'
    replies = list(grid.send_and_receive(messages))
    wrong = "refused: the model or the config is not the one that this round is about"
    assert [r.error.reason if r.has_error() else "" for r in replies[:3]] == [wrong, wrong, ""]


def test_a_cheat_is_left_out_after_repeated_offences(tmp_path, caplog):
    grid = Federation(tmp_path)
    cheat = grid.nodes[1]

    def lie(message_ids):
        replies = InProcessGrid.pull_messages(grid, message_ids)
        for reply in replies:
            fields = {} if reply.has_error() else reply.content[RECORD]
            if reply.metadata.src_node_id == cheat and "seed-shares" in fields:
                fields["seed-shares"] = bytes(len(fields["seed-shares"]))
        return replies

    grid.pull_messages = lie
    strategy = FedAU(POPULATION, summation=Impatient(roster=grid.path))
    with caplog.at_level(logging.WARNING):
        for number in (1, 2, 3):
            grid.run(strategy, number)
    assert [strategy.ledger.counted[node] for node in grid.nodes] == [3, 2, 3, 3, 3]
    named = [m for m in caplog.messages if f"Node {cheat} broke the protocol" in m]
    assert len(named) == 2
    assert named[1].endswith("left out from now on.")
    assert strategy.state_dict()["summation"] == {"offences": [[cheat, 2]]}
