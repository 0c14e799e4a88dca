"""Every strategy and wrapper of Flower, beside ours: supported, or refused in one sentence."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord
from flwr.common import ndarrays_to_parameters
from flwr.server import strategy as older
from flwr.server.client_manager import SimpleClientManager
from flwr.serverapp import strategy as flower

from fedau_flwr import FedAU, FedAUAdagrad, FedAUAdam, FedAUAvgM, FedAUYogi, RoundLoop, legacy
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values

WRAPPERS = {
    "DifferentialPrivacyServerSideFixedClipping": (1.0, 5.0, 4),
    "DifferentialPrivacyServerSideAdaptiveClipping": (0.1, 4),
    "DifferentialPrivacyClientSideFixedClipping": (1.0, 5.0, 4),
    "DifferentialPrivacyClientSideAdaptiveClipping": (0.1, 4),
}
OURS = {
    "FedAvg": FedAU,
    "FedAdam": FedAUAdam,
    "FedYogi": FedAUYogi,
    "FedAdagrad": FedAUAdagrad,
    "FedAvgM": FedAUAvgM,
    "FedProx": FedAU,  # with train_config, below
}
NEED_SINGLE_REPLIES = {
    "Bulyan",
    "FedMedian",
    "FedTrimmedAvg",
    "FedXgbBagging",
    "FedXgbCyclic",
    "Krum",
    "MultiKrum",
    "QFedAvg",
}


def grid_of_four(mods=None):
    return Federation(training_app(towards([0.0, 8.0, 16.0, 32.0], 1.0), mods), 4)


def test_no_strategy_of_flower_is_forgotten():
    known = {*WRAPPERS, *OURS, *NEED_SINGLE_REPLIES, "Strategy", "Result"}
    assert {*flower.__all__} <= known


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("loop", ["start", "RoundLoop"])
def test_wrappers_for_privacy_are_refused_before_anything_is_sent(name, loop):
    grid = grid_of_four()
    wrapped = getattr(flower, name)(FedAU(4), *WRAPPERS[name])
    run = wrapped.start if loop == "start" else RoundLoop(wrapped, grid).run
    arguments = (grid,) if loop == "start" else ()
    with pytest.raises(
        ValueError, match=rf"^{name} is around FedAU, but must be .*GaussianPrivacy"
    ):
        run(*arguments, record(x=np.zeros(1)), num_rounds=1)
    assert grid.received == []


def test_a_wrapper_that_only_watches_is_fine():
    class Watching(flower.FedAvg):
        def __init__(self, inner):
            super().__init__()
            self.strategy = inner

        def configure_train(self, *arguments):
            return self.strategy.configure_train(*arguments)

        def aggregate_train(self, *arguments):
            return self.strategy.aggregate_train(*arguments)

        def configure_evaluate(self, *arguments):
            return []

    result = Watching(FedAU(4)).start(grid_of_four(), record(x=np.zeros(1)), num_rounds=1)
    assert values(result.arrays)["x"] == 14.0


@pytest.mark.parametrize("name", OURS)
def test_a_counterpart_takes_the_options_of_flowers_own(name):
    given = {"fraction_train": 1.0, "min_train_nodes": 2, "weighted_by_key": "num-examples"}
    getattr(flower, name)(**given)
    result = OURS[name](4, **given).start(grid_of_four(), record(x=np.zeros(1)), num_rounds=1)
    assert values(result.arrays)["x"] > 0


def test_fedprox_is_a_train_config():
    grid = grid_of_four()
    config = ConfigRecord({"proximal-mu": 0.25})
    FedAU(4).start(grid, record(x=np.zeros(1)), num_rounds=1, train_config=config)
    assert {m.content["config"]["proximal-mu"] for m in grid.received} == {0.25}


@pytest.mark.parametrize("name", sorted(NEED_SINGLE_REPLIES | {"FedAvg", "FedProx"}))
def test_clients_with_the_mod_refuse_a_strategy_that_is_not_of_ours(name):
    """Single replies tell a robust rule nothing when they are weighted: the clients do not send."""
    grid = grid_of_four()
    own = {"client_learning_rate": 0.1} if name == "QFedAvg" else {}
    strategy = getattr(flower, name)(fraction_evaluate=0.0, **own)
    messages = strategy.configure_train(1, ArrayRecord([np.zeros(1)]), ConfigRecord(), grid)
    for reply in grid.send_and_receive(messages):
        assert reply.error.reason == (
            "The train message has no 'fedau-run', so its sender does not add up weighted updates: "
            "use fedau_flwr.FedAU, or another strategy of fedau_flwr, as the strategy."
        )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [*WRAPPERS.items(), ("DPFedAvgFixed", (4, 1.0)), ("DPFedAvgAdaptive", (4,))],
)
def test_the_older_wrappers_are_refused_too(name, arguments):
    wrapped = getattr(older, name)(legacy.FedAU(4), *arguments)
    with pytest.raises(ValueError, match=f"^{name} is around FedAU, but must be around"):
        wrapped.configure_fit(1, ndarrays_to_parameters([np.zeros(1)]), SimpleClientManager())


def test_trees_cannot_be_summed():
    with pytest.raises(ValueError, match=r"arrays are uint8, .* boosted trees, cannot be summed"):
        FedAU(4).start(grid_of_four(), record(trees=np.zeros(0, np.uint8)), num_rounds=1)
