"""A run on a Ray cluster that is there already: two Ray nodes of one core each."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from simulations.processes import descendants, end_tree
from simulations.run_directory import RunDirectory
from simulations.superlink import CLONE, SuperLink, free_port
from tests.simulations.experiments import assert_same, model_of, run, tiny


def start_ray(*arguments):
    """Start a Ray node that lives as long as its process."""
    command = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--num-cpus=1"]
    return subprocess.Popen(
        [*command, "--object-store-memory=100000000", *arguments],
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(CLONE)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def is_up(address):
    command = [str(Path(sys.executable).parent / "ray"), "status", f"--address={address}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.count("1 node_")


def trains(ray):
    """Return whether a Ray node has a worker of Flower's engine."""
    commands = [Path(f"/proc/{pid}/cmdline") for pid in descendants(ray.pid)]
    return any(b"ClientAppActor" in path.read_bytes() for path in commands if path.exists())


@pytest.fixture
def cluster():
    """Return the address of a cluster of two nodes, and the nodes' processes."""
    address = f"127.0.0.1:{free_port(0)}"
    port = address.split(":")[1]
    with pytest.MonkeyPatch.context() as patch:
        with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as directory:  # short: sockets
            patch.setenv("RAY_TMPDIR", directory)
            loopback = "--node-ip-address=127.0.0.1"
            head = start_ray("--head", f"--port={port}", f"--temp-dir={directory}", loopback,
                             "--include-dashboard=false")  # fmt: skip
            nodes = [head]
            try:
                wait_for(lambda: is_up(address) >= 1)
                nodes.append(start_ray(f"--address={address}", loopback))
                wait_for(lambda: is_up(address) >= 2)
                yield address, nodes
            finally:
                for node in nodes[::-1]:
                    end_tree(node)


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_both_machines_of_a_cluster_train(cluster, tmp_path):
    address, rays = cluster
    settings = {"num_server_rounds": 6, "evaluate_every": 3}
    trained = set()

    def follow(directory):
        trained.update(number for number, ray in enumerate(rays) if trains(ray))

    with SuperLink(environment={"RAY_ADDRESS": address}) as link:
        link.run(tiny(tmp_path, "cluster", **settings), 2, follow)
    assert trained == {0, 1}
    expected = run(tiny(tmp_path, "alone", **settings), nodes=2)
    assert_same(model_of(expected), model_of(RunDirectory(tmp_path / "cluster")))
