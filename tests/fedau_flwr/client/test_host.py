import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedau_flwr import (
    MIFA,
    Amplified,
    FedAU,
    FedAUMod,
    FedAUWeighting,
    FedAWE,
    FedStale,
    MimiC,
)
from fedau_flwr.client.host import Host
from fedau_flwr.client.participant import Participant
from fedau_flwr.client.separation import Resting, Separation
from fedau_flwr.client.store import ContextStore
from fedau_flwr.server.ledger import Ledger
from fedau_flwr.server.roster import Roster
from fedau_flwr.wire.requests import Refusal, hosted_config
from tests.fedau_flwr.client.test_participant import MemoryStore
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values

CLIENTS = 9
TARGETS = np.linspace(-2, 2, CLIENTS)


def host_app(train):
    stores = {n: MemoryStore() for n in range(CLIENTS)}
    host = Host(lambda n: Participant(stores[n], FedAUWeighting(5)))
    app = ClientApp()

    @app.train()
    def run(message, context):
        return host.reply(message, lambda n, model: train(n, model, 0))

    return app


class Hosting(Roster):
    """Clients of each node, as a function says."""

    hosting = True

    def __init__(self, clients):
        super().__init__()
        self.clients = clients


def play_hosted(strategy, nodes, path, train, lost_nodes=()):
    grid = Federation(host_app(train), nodes)
    roster = {}
    strategy.roster = Hosting(lambda node: roster[grid.number(node)])
    model = record(x=np.zeros(2), n=np.array(5))
    for r, here in enumerate(path, 1):
        participants = np.flatnonzero(here).tolist()
        roster.clear()
        roster.update({k: participants[k::nodes] for k in range(nodes) if participants[k::nodes]})
        grid.present = set(roster)
        grid.lost = {k for number, k in lost_nodes if number == r}
        model = grid.play(strategy, r, model)
    return values(model)["x"]


PATH = np.random.default_rng(2).random((15, CLIENTS)) < 0.4


def amplified(clients):
    return Amplified(FedAU(clients), period=4)


KINDS = pytest.mark.parametrize("kind", [FedAU, MIFA, FedStale, FedAWE, MimiC, amplified])


@KINDS
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_packing_does_not_change_the_result(kind, nodes):
    train = towards(TARGETS)
    grid = Federation(training_app(train, [FedAUMod(FedAUWeighting(5))]), CLIENTS)
    strategy, model = kind(CLIENTS), record(x=np.zeros(2), n=np.array(5))
    for r, here in enumerate(PATH, 1):
        grid.present = set(np.flatnonzero(here).tolist())
        model = grid.play(strategy, r, model)
    packed = play_hosted(kind(CLIENTS), nodes, PATH, train)
    np.testing.assert_allclose(packed, values(model)["x"], rtol=0, atol=1e-12)


@KINDS
def test_a_lost_host_counts_none_of_its_participants(kind):
    lost = [(3, 0), (4, 1), (9, 0)]
    honest = PATH.copy()
    for r, node in lost:
        honest[r - 1, np.flatnonzero(PATH[r - 1])[node::2]] = False
    strategy = kind(CLIENTS)
    with_loss = play_hosted(strategy, 2, PATH, towards(TARGETS), lost)
    without = play_hosted(kind(CLIENTS), 2, honest, towards(TARGETS))
    np.testing.assert_allclose(with_loss, without, rtol=0, atol=1e-12)
    last = [int(np.flatnonzero(honest[:, n])[-1]) + 1 for n in range(CLIENTS)]
    assert [strategy.ledger.counted[n] for n in range(CLIENTS)] == last


def test_a_client_whose_update_is_not_finite_is_left_out_and_not_counted():
    def train(client, arrays, server_round):
        x = arrays["x"] + (np.nan if client == 4 else 1.0)
        return {**arrays, "x": x}

    strategy = FedAU(CLIENTS)
    x = play_hosted(strategy, 1, [np.ones(CLIENTS, bool)], train)
    np.testing.assert_allclose(x, (CLIENTS - 1) / CLIENTS)
    assert strategy.ledger.counted == {n: int(n != 4) for n in range(CLIENTS)}


def test_a_host_without_any_contribution_refuses():
    def train(client, arrays, server_round):
        return {**arrays, "x": arrays["x"] * np.nan}

    strategy = FedAU(CLIENTS)
    x = play_hosted(strategy, 1, [np.ones(CLIENTS, bool)], train)
    np.testing.assert_array_equal(x, np.zeros(2))
    assert set(strategy.ledger.counted.values()) == {0}


def test_a_host_message_needs_its_lists():
    with pytest.raises(Refusal, match="fedau-clients is None, but must be a list"):
        Host(lambda n: None).contribute(ConfigRecord(), {}, lambda n, model: {})


@pytest.mark.parametrize("label", [7, "clients", [1, 1]])
def test_a_host_that_lists_its_clients_wrongly_is_rejected(label):
    app = ClientApp()

    @app.train()
    def run(message, context):
        content = RecordDict({"arrays": message.content["arrays"]})
        content["fedau"] = ConfigRecord({"fedau-clients": label})
        return Message(content, reply_to=message)

    grid = Federation(app, 1)
    strategy = FedAU(2, roster=Hosting(lambda node: [0, 1]))
    grid.play(strategy, 1, record(x=np.ones(2)))
    assert strategy.ledger.counted == {0: 0, 1: 0}


def test_a_host_may_keep_its_clients_rounds_apart_by_itself():
    stores = [ContextStore(Context(1, 2, {}, RecordDict(), {})) for _ in range(2)]
    host = Host(lambda n: Participant(stores[n], FedAUWeighting()), Separation(3))
    ledger, included = Ledger(), []
    for _ in range(4):
        ledger.open(ledger.round + 1)
        config = hosted_config([ledger.request(client) for client in (0, 1)])
        try:
            included.append(host.contribute(config, {"x": np.zeros(1)}, lambda n, x: x)[1])
        except Resting:
            included.append([])
    assert included == [[0, 1], [], [], [0, 1]]
