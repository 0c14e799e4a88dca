"""What the README says about Flower's SecAgg+, held against the installed Flower."""

from contextlib import suppress

import numpy as np
import pytest
from flwr.app import Error, Message
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.constant import ErrorCode
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.compat.common import recorddict_compat as compat

from simulations.bench.secure import WireGrid, run_secaggplus

CLIENTS = 5


class ListeningGrid(WireGrid):
    def pull_messages(self, message_ids):
        replies = list(super().pull_messages(message_ids))
        self.heard = [*getattr(self, "heard", []), *replies]
        return replies


def report_errors(message, context, call_next):
    """Do what a SuperNode does with an app that raises."""
    try:
        return call_next(message, context)
    except Exception as error:
        failure = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error))
        return Message(failure, reply_to=message)


def federation(value, *, dropped=0, exchange=3):
    app = ClientApp(mods=[report_errors, secaggplus_mod])

    @app.train()
    def train(message, context) -> Message:
        parameters = ndarrays_to_parameters([np.full(3, value, np.float32)])
        result = FitRes(Status(Code.OK, ""), parameters, num_examples=1, metrics={"loss": 0.75})
        return Message(compat.fitres_to_recorddict(result, True), reply_to=message)

    return ListeningGrid(app, CLIENTS, dropped, exchange=exchange)


def test_masks_come_from_32_bits_and_the_mersenne_twister():
    seed = bytes(range(32))
    # Any seed with the same exclusive or of its words yields the same mask.
    words = np.frombuffer(seed, "<u4")
    equal = np.bitwise_xor.reduce(words).tobytes() + bytes(28)
    (mask,), (same,) = (pseudo_rand_gen(s, 2**32, [(100,)]) for s in (seed, equal))
    assert np.array_equal(mask, same)
    twister = np.random.RandomState(int(np.bitwise_xor.reduce(words)))
    assert np.array_equal(mask, twister.randint(0, 2**32 - 1, 100, dtype=np.int64))


def test_example_counts_and_metrics_are_sent_in_clear():
    grid = federation(1.0)
    run_secaggplus(grid, CLIENTS, 3, 3)
    sent = [r.content for r in grid.heard if "fitres.num_examples" in r.content]
    assert len(sent) == CLIENTS
    assert all(c["fitres.num_examples"]["num_examples"] == 1 for c in sent)
    assert all(c["fitres.metrics"]["loss"] == 0.75 for c in sent)


def test_values_beyond_eight_are_clipped_without_a_word(caplog):
    caplog.set_level("DEBUG")
    assert run_secaggplus(federation(100.0), CLIENTS, 3, 3) == pytest.approx(8.0, abs=1e-5)
    assert "clip" not in caplog.text.lower()


@pytest.mark.parametrize(("exchange", "works"), [(1, False), (2, False), (3, True)])
def test_one_client_lost_before_the_masked_vectors_voids_the_round(exchange, works):
    model = run_secaggplus(federation(1.0, dropped=1, exchange=exchange), CLIENTS, 3, 3)
    assert model == pytest.approx(1.0 if works else 0.0, abs=1e-5)


def test_a_client_reveals_both_kinds_of_share_if_asked():
    class Greedy(ListeningGrid):
        def push_messages(self, messages):
            messages = list(messages)
            for message in messages:
                config = message.content.config_records[RECORD_KEY_CONFIGS]
                if Key.ACTIVE_NODE_ID_LIST in config:
                    config[Key.DEAD_NODE_ID_LIST] = list(config[Key.ACTIVE_NODE_ID_LIST])
            return super().push_messages(messages)

    grid = federation(1.0)
    grid.__class__ = Greedy
    with suppress(ValueError):  # the honest part of the server cannot sort what it gets
        run_secaggplus(grid, CLIENTS, 3, 3)
    config = grid.heard[-1].content.config_records[RECORD_KEY_CONFIGS]
    assert len(config[Key.SHARE_LIST]) == 2 * CLIENTS
