"""Which app runs on a node, by the SHA-256 of its bundle.

A ClientApp is code from whoever submits the run. Flower's `Context` does not say which app it is;
what a process can know is where Flower unpacked the bundle, from which the bundle is built again,
byte for byte. An app that means harm would not have our mods: against that the bundle has to be
checked before it is unpacked, see `fedau_flwr.client.guard`.
"""

import sys
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from .. import _flower
from ..wire.requests import Refusal
from .policy import ALLOW_APPS, NodePolicy


def check_app(policy: NodePolicy, digest: str | None = None) -> None:
    """Refuse to work for an app that the node's owner does not allow."""
    if not policy.apps:
        return
    found = digest or running_app()
    if found not in policy.apps:
        raise Refusal(
            f"{ALLOW_APPS} in the node config allows {len(policy.apps)} apps, but not the one that "
            f"runs here, {found or 'which was not unpacked from a bundle'}."
        )


@lru_cache(maxsize=1)
def running_app() -> str | None:
    """Return the SHA-256 of the bundle that this process runs, None if there is none."""
    unpacked = _flower.get_flwr_home() / "apps"
    for entry in sys.path:
        if Path(entry).parent == unpacked:
            return sha256(_flower.build_fab_from_disk(Path(entry))).hexdigest()
    return None
