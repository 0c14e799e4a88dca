"""A whole federation as local processes: SuperLink, SuperNodes, TLS and node authentication."""

from simulations.deployment.federation import Federation
from simulations.deployment.local import deploy_local
from simulations.deployment.node import Node
from simulations.deployment.process import Process
from simulations.deployment.run import Run

__all__ = ["Federation", "Node", "Process", "Run", "deploy_local"]
