"""The plugin on Flower's real engine: `flwr run` of a numpy app against the formula."""

import json
import subprocess
import uuid

import numpy as np

from simulations.launch.superlink import CONNECTION, SuperLink
from tests.deployment.conftest import APP
from tests.deployment.history import History
from tests.simulations.launch.test_superlink import marked_processes

CLIENTS, ROUNDS, FAILS_EVERY = 10, 5, 3


def test_a_numpy_app_ends_where_the_formula_does_and_leaves_nothing(tmp_path, monkeypatch):
    mark = f"mark-{uuid.uuid4().hex}"
    monkeypatch.setenv("FEDAU_TEST_MARK", mark)
    config = {
        "num-server-rounds": ROUNDS,
        "num-clients": CLIENTS,
        "wait-for": CLIENTS,
        "fails-every": FAILS_EVERY,
        "directory": str(tmp_path),
    }
    with SuperLink(workers=2) as link:
        subprocess.run(
            [
                *("flwr", "run", str(APP), CONNECTION, "--stream"),
                *("--federation-config", f"num-supernodes={CLIENTS} client-resources-num-cpus=1"),
                *("-c", " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())),
            ],
            env=link.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=240,
            check=True,
        )
        assert marked_processes(mark)
    assert marked_processes(mark) == []
    path = [
        [client for client in range(CLIENTS) if (number + client) % FAILS_EVERY]
        for number in range(1, ROUNDS + 1)
    ]
    records = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert [len(record["counted"]) for record in records] == [len(counted) for counted in path]
    expected = History(path).model(CLIENTS)
    np.testing.assert_allclose(np.load(tmp_path / "model.npy"), expected, rtol=1e-5)
