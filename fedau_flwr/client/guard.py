"""``fedau-clientapp``: Flower's ``flwr-clientapp``, for the apps that the node config allows.

SuperExec starts ``flwr-clientapp`` by its name. A link of this name to ``fedau-clientapp`` that
comes first in its PATH, as in our image, has the SHA-256 of every bundle compared with
``fedau-allow-apps`` before a byte of it is unpacked or run.
"""

from hashlib import sha256
from typing import Any

from .. import _flower
from .._log import log
from ..wire.requests import Refusal
from .apps import check_app
from .policy import NodePolicy


def main() -> None:
    """Run a ClientApp as Flower does, once its bundle has been checked."""
    pull, install = _flower.pull_task_input, _flower.install_from_fab
    contexts: list[Any] = []

    def pull_and_note(client: Any) -> Any:
        pulled = pull(client)
        contexts.append(pulled[1])
        return pulled

    def install_if_allowed(bundle: bytes, *arguments: Any, **options: Any) -> Any:
        digest = sha256(bundle).hexdigest()
        try:
            check_app(NodePolicy.of(contexts[-1]), digest)
        except Refusal as refusal:
            log.error("%s", refusal)
            raise
        return install(bundle, *arguments, **options)

    _flower.replace("pull_task_input", pull_and_note)
    _flower.replace("install_from_fab", install_if_allowed)
    _flower.flwr_clientapp()
