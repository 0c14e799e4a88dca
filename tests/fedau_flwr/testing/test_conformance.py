"""The kit against this package, and against implementations with mistakes that are known."""

import json
import subprocess
import sys

import numpy as np
import pytest

from fedau_flwr import (
    MIFA,
    Amplified,
    FedAU,
    FedAUMod,
    FedAUWeighting,
    FedAWE,
    FedStale,
    FedVARP,
    FrequencyWeighting,
    InverseProbabilityWeighting,
    MimiC,
    UnitWeighting,
    WeightState,
)
from fedau_flwr.client.participant import Participant
from fedau_flwr.server.groups import GroupHistory
from fedau_flwr.testing import SHIPPED, Mismatch, check, compare, questions, read
from fedau_flwr.testing.__main__ import main
from fedau_flwr.testing.algorithm2 import weights
from fedau_flwr.testing.conformance import capped_weights
from fedau_flwr.testing.one_sum import METHODS
from fedau_flwr.testing.vectors import answered, write
from fedau_flwr.wire.requests import Refusal, Request
from tests.fedau_flwr.client.test_participant import MemoryStore
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values


def over(weighting, case):
    state = weighting.initial()
    found = [state.weight]
    for bit in case["participation"]:
        state = weighting.advance(state, bit == "1")
        found.append(state.weight)
    return found


def our_weights(case):
    return over(FedAUWeighting(case["cutoff"], case["smoothing"]), case)


def our_gap(case):
    m, s = case["intervals"], case["elapsed"]
    rounds = round(m * case["weight"]) + s
    state = WeightState(rounds, m, s, case["weight"])
    after = FedAUWeighting(case["cutoff"], case["smoothing"]).skip(state, case["gap"])
    return [after.intervals, after.elapsed, after.weight]


def our_group(case):
    history = GroupHistory(case["size"], case["cutoff"])
    found = [history.weight]
    for counted in case["counted"]:
        history.advance(counted)
        found.append(history.weight)
    return found


def our_client(case):
    store, kept, found = MemoryStore(), [[]], []
    client = Participant(store, FedAUWeighting(case["cutoff"]))
    model = {"x": np.zeros(1)}
    for asked in case["requests"]:
        if asked["restored"] is not None:
            store.save("t", kept[asked["restored"]])
        attempts = tuple(map(tuple, asked["attempts"]))
        request = Request(asked["round"], "t", attempts=attempts, counted=asked["counted"], safe=0)
        try:
            parts = client.contribute(request, model, lambda start: {"x": start["x"] + 1})
            found.append(float(parts["update"]["x"][0]))
        except Refusal:
            found.append(None)
        kept.append(store.load("t"))
    return found


def mod_of(case, client):
    own = case["parameters"]
    weighting = {
        "fedau": lambda: FedAUWeighting(own["cutoff"]),
        "fedstale": lambda: FedAUWeighting(own["cutoff"]),
        "frequency": FrequencyWeighting,
        "known-statistics": lambda: InverseProbabilityWeighting(own["p"][client]),
    }.get(case["method"], UnitWeighting)
    return FedAUMod(weighting())


def our_method(case):
    own, name, clients = case["parameters"], case["method"], len(case["targets"])
    options = {"server_learning_rate": case["server_lr"]}
    mean = {"divisor": "participants"}
    strategy = {
        "average-participating": lambda: FedAU(clients, **mean, **options),
        "amplified": lambda: Amplified(FedAU(clients, **mean, **options), **own),
        "mifa": lambda: MIFA(clients, **options),
        "fedvarp": lambda: FedVARP(clients, **options),
        "fedstale": lambda: FedStale(clients, own["beta"], **options),
        "fedawe": lambda: FedAWE(clients, **options),
        "mimic": lambda: MimiC(clients, held_rounds=0, **options),
    }.get(name, lambda: FedAU(clients, **options))()

    def train(client, arrays, server_round):
        for _ in range(case["steps"]):
            arrays = towards(np.array(case["targets"]), case["lr"])(client, arrays, server_round)
        return arrays

    def mod(message, context, call_next):
        return mod_of(case, context.node_config["partition-id"])(message, context, call_next)

    grid, model, models = Federation(training_app(train, [mod]), clients), case["initial"], []
    model = record(x=np.array(model))
    for t, (here, reached) in enumerate(zip(case["participation"], case["delivered"], strict=True)):
        grid.present = {n for n, bit in enumerate(here) if bit == "1"}
        grid.unreached = {n for n, bit in enumerate(reached) if bit == "0"}
        model = grid.play(strategy, t + 1, model)
        models.append(values(model)["x"])
    return np.array(models)


OURS = {
    "weights": our_weights,
    "frequency": lambda case: over(FrequencyWeighting(), case),
    "gaps": our_gap,
    "groups": our_group,
    "protocol": our_client,
    "methods": our_method,
}


@pytest.mark.parametrize("section", OURS)
def test_this_package_conforms(section):
    assert check(section, OURS[section]) == len(questions()[section])


def test_the_shipped_vectors_are_those_of_the_literal_algorithms(tmp_path):
    write(tmp_path / "vectors.json", answered())
    assert (tmp_path / "vectors.json").read_bytes() == SHIPPED.read_bytes()
    assert {*questions()} == {*OURS}
    assert {case["method"] for case in questions()["methods"]} == {*METHODS}
    refused = [a for case in read(SHIPPED)["protocol"] for a in case["answer"] if a is None]
    assert len(refused) >= 3


def test_fedavg_in_disguise_is_caught():
    """A FedAU that never leaves its first counter, and then normalises its weights."""
    with pytest.raises(Mismatch, match="all weights are equal, so this is FedAvg in disguise"):
        check("weights", lambda case: [1.0] * (len(case["participation"]) + 1))
    mean = METHODS["average-participating"]
    with pytest.raises(
        Mismatch, match=r"'fedau cutoff=4': .* this is average-participating"
    ) as caught:
        check("methods", lambda case: mean(case) if case["method"] == "fedau" else our(case))
    assert str(caught.value).count("\n") == 1  # FedAU's two cases, and no other


def our(case):
    return [model.tolist() for model in METHODS[case["method"]](case)]


def test_capped_instead_of_split_intervals_are_caught():
    def capped(case):
        path = [bit == "1" for bit in case["participation"]]
        return capped_weights(path, case["cutoff"])

    with pytest.raises(Mismatch, match="capped at the cutoff instead of split there") as caught:
        check("weights", capped)
    assert "K = 50, β = None" not in str(caught.value)  # where no interval is that long
    lines = [line for line in str(caught.value).splitlines() if "β = None" in line]
    assert all(line.endswith("capped at the cutoff instead of split there.") for line in lines)


def test_a_weight_that_depends_on_its_own_round_is_caught():
    def early(case):
        path = [bit == "1" for bit in case["participation"]]
        return weights(path, case["cutoff"], case["smoothing"])[1:]

    with pytest.raises(Mismatch, match=r"instead of .* entries: the weight of a round depends on"):
        check("weights", early)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda case: None, "the answer has None instead of"),
        (lambda case: ["1"] * 3, "has 3 instead of"),
        (lambda case: [float("nan")] * len(case["requests"]), r"the answer\[0\] is nan, but must"),
        (lambda case: [1.0] * len(case["requests"]), r"must be None \(a refusal\)"),
    ],
)
def test_answers_of_all_kinds_are_compared(answer, reason):
    with pytest.raises(Mismatch, match=reason):
        check("protocol", answer)


def test_the_command_line(tmp_path, capsys):
    assert main([]) == 0
    assert "methods: 17 of 17 right" in capsys.readouterr().out
    asked = tmp_path / "questions.json"
    assert main(["--questions", str(asked)]) == 0
    content = json.loads(asked.read_text())
    assert "answer" not in content["weights"][0]
    for case in content["weights"]:
        case["answer"] = [1] * (len(case["participation"]) + 1)
    (tmp_path / "theirs.json").write_text(
        json.dumps({"format": content["format"], "weights": content["weights"]})
    )
    assert main([str(tmp_path / "theirs.json")]) == 1
    said = capsys.readouterr().out
    assert "FedAvg in disguise" in said
    assert "not answered: frequency, gaps, groups, protocol, methods" in said
    some = {"format": content["format"], "weights": read(SHIPPED)["weights"][:40]}
    (tmp_path / "theirs.json").write_text(json.dumps(some))
    assert main([str(tmp_path / "theirs.json")]) == 0
    assert "not answered: 2 cases of weights, frequency, gaps" in capsys.readouterr().out
    for text, reason in (("{", "cannot be read as JSON"), ("{}", "format of"), ("[]", "format of")):
        (tmp_path / "bad.json").write_text(text)
        assert main([str(tmp_path / "bad.json")]) == 2
        assert reason in capsys.readouterr().err
    odd = {"weights": [{"name": "mine", "participation": 3, "answer": []}]}
    assert "cannot be read" in compare(odd)["weights"][0]


def test_it_is_a_module_to_run():
    command = [sys.executable, "-m", "fedau_flwr.testing", str(SHIPPED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "protocol: 10 of 10 right" in done.stdout
