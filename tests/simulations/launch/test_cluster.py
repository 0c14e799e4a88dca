"""A run on a Ray cluster that is there already: two Ray nodes of one core each."""

import tempfile

import pytest

from simulations.launch.process import Process, flower_environment, free_port, stop_together
from simulations.launch.simulator import Simulator
from simulations.runs.directory import RunDirectory
from tests.processes import command_line
from tests.simulations.experiments import assert_same, model_of, run, tiny


def start_ray(log, *arguments):
    """Start a Ray node that lives as long as its process."""
    command = ["ray", "start", "--block", "--num-cpus=1", "--object-store-memory=100000000"]
    ray = Process(
        "ray", [*command, *arguments], log=log, environment=flower_environment(log.parent)
    )
    ray.start()
    return ray


def trains(ray):
    """Return whether a Ray node has a worker of Flower's engine."""
    return any("ClientAppActor" in command_line(process) for process in ray.descendants())


@pytest.fixture
def cluster(tmp_path):
    """Return the address of a cluster of two nodes, and the nodes' processes.

    Addresses of the loopback interface that are not the usual one, which Ray would replace.
    """
    port = free_port()
    nodes = []
    # Below /tmp, since the paths of Ray's sockets have to be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as directory:
        try:
            where = ("--head", f"--port={port}", f"--temp-dir={directory}")
            options = ("--node-ip-address=127.0.0.2", "--include-dashboard=false")
            nodes.append(start_ray(tmp_path / "head.txt", *where, *options))
            nodes[0].wait_for("Ray runtime started", timeout=120.0)
            join = (f"--address=127.0.0.2:{port}", "--node-ip-address=127.0.0.3")
            nodes.append(start_ray(tmp_path / "second.txt", *join))
            nodes[1].wait_for("Ray runtime started", timeout=120.0)
            yield f"127.0.0.2:{port}", nodes
        finally:
            stop_together(nodes)


@pytest.mark.engine
def test_both_machines_of_a_cluster_train(cluster, tmp_path):
    address, rays = cluster
    settings = {"num_server_rounds": 6, "evaluate_every": 3}
    trained = set()

    def follow(directory):
        trained.update(number for number, ray in enumerate(rays) if trains(ray))

    with Simulator(environment={"RAY_ADDRESS": address}) as simulator:
        simulator.run(tiny(tmp_path, "cluster", **settings), 2, follow)
    assert trained == {0, 1}
    expected = run(tiny(tmp_path, "alone", **settings), nodes=2)
    assert_same(model_of(expected), model_of(RunDirectory(tmp_path / "cluster")))
