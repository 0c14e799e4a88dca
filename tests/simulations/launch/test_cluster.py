"""A run on a Ray cluster that is there already: two Ray nodes of one core each."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from simulations.launch.process_tree import ProcessTree
from simulations.launch.superlink import SuperLink, free_port
from simulations.runs.directory import RunDirectory
from tests.simulations.experiments import assert_same, model_of, run, tiny


def start_ray(log, *arguments):
    """Start a Ray node that lives as long as its process, and wait until it is up."""
    command = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--num-cpus=1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--object-store-memory=100000000", *arguments],
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 120
    while "Ray runtime started" not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            ProcessTree(process).end()
            raise RuntimeError(log.read_text())
        time.sleep(0.1)
    return ProcessTree(process)


def trains(ray):
    """Return whether a Ray node has a worker of Flower's engine."""
    ray.observe()
    commands = [Path(f"/proc/{pid}/cmdline") for pid in ray.alive()]
    return any(b"ClientAppActor" in path.read_bytes() for path in commands if path.exists())


@pytest.fixture
def cluster(tmp_path):
    """Return the address of a cluster of two nodes, and the nodes' processes.

    Addresses of the loopback interface that are not the usual one, which Ray would replace.
    """
    port = free_port(0)
    nodes = []
    # Below /tmp, since the paths of Ray's sockets have to be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as directory:
        try:
            where = ("--head", f"--port={port}", f"--temp-dir={directory}")
            options = ("--node-ip-address=127.0.0.2", "--include-dashboard=false")
            nodes.append(start_ray(tmp_path / "head.txt", *where, *options))
            join = (f"--address=127.0.0.2:{port}", "--node-ip-address=127.0.0.3")
            nodes.append(start_ray(tmp_path / "second.txt", *join))
            yield f"127.0.0.2:{port}", nodes
        finally:
            for node in nodes[::-1]:
                node.end()


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
