import numpy as np
import pytest
from flwr.app import MetricRecord

from fedau_flwr import FedAU, RoundLoop
from fedau_flwr.server.callbacks import Evaluate, StopOnDivergence
from fedau_flwr.server.callbacks.conditions import UNCOUNTED_ROUNDS
from tests.fedau_flwr.federation import Federation, record, towards, training_app
from tests.fedau_flwr.server.test_loop import fedavg

START = np.float32([1, 2])


def broken_from(number, *, client=None):
    """Return training whose result is no number from a round on."""

    def train(this, arrays, server_round):
        wrong = server_round >= number and client in {None, this}
        return {"x": arrays["x"] + np.float32(np.nan if wrong else 1)}

    return train


def ended(loop):
    loop.run(record(x=START), 50)
    return loop.status, loop.round, loop.sentence


def test_a_model_that_is_not_finite_ends_the_run():
    loop = RoundLoop(
        fedavg(), Federation(training_app(broken_from(3), []), 2), [StopOnDivergence()]
    )
    sentence = (
        "The run ended after round 3 of 50, because its model has values that are no finite "
        "numbers."
    )
    assert ended(loop) == ("diverged", 3, sentence)


def test_rounds_in_which_no_update_is_finite_end_it_too():
    loop = RoundLoop(
        FedAU(num_clients=2), Federation(training_app(broken_from(5)), 2), [StopOnDivergence()]
    )
    status, number, sentence = ended(loop)
    assert (status, number) == ("diverged", 4 + UNCOUNTED_ROUNDS)
    assert sentence.endswith("in 20 rounds with participants no update was finite and valid.")


def test_one_finite_update_is_enough_to_go_on():
    grid = Federation(training_app(broken_from(1, client=0)), 2)
    assert ended(RoundLoop(FedAU(num_clients=2), grid, [StopOnDivergence()]))[0] == "finished"


def test_rounds_without_anybody_do_not_count():
    grid = Federation(training_app(towards(np.zeros((2, 2)))), 2)
    grid.present = set()
    assert ended(RoundLoop(FedAU(num_clients=2), grid, [StopOnDivergence()]))[0] == "finished"


@pytest.mark.parametrize("first", [True, False])
def test_a_loss_that_is_not_finite_ends_it_wherever_it_is_measured(first):
    grid = Federation(training_app(towards(np.zeros((2, 2)))), 2)
    values = {4: np.inf}
    measure = Evaluate(
        lambda number, _: MetricRecord({"test_loss": values.get(number, 1.0), "other": np.nan}),
        every=2,
    )
    callbacks = [measure, StopOnDivergence()] if first else [StopOnDivergence(), measure]
    status, number, sentence = ended(RoundLoop(FedAU(num_clients=2), grid, callbacks))
    assert (status, number) == ("diverged", 4)
    assert sentence.endswith("because its loss is no finite number any more.")


def test_the_count_is_part_of_checkpoints():
    callback, other = StopOnDivergence(), StopOnDivergence()
    loop = RoundLoop(FedAU(num_clients=2), Federation(training_app(broken_from(1)), 2), [callback])
    loop.run(record(x=START), 7)
    other.load_state_dict(callback.state_dict())
    assert other.state_dict() == {"uncounted": 7}
