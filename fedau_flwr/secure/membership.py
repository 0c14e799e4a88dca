"""Who a node's client is, as its own node config says, and what it says if something is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flwr.app import Context

from .._log import log
from ..client.state_directory import STATE_DIR
from ..wire.requests import Refusal
from .identity import Identity, IdentityError, Roster
from .message import RefusalError

ROSTER = "fedau-roster"


def membership(context: Context) -> tuple[Identity | None, Roster | None]:
    """Return who this client is and with whom it takes part; nothing without a roster."""
    path, directory = (context.node_config.get(key) for key in (ROSTER, STATE_DIR))
    if not path:
        return None, None
    if not directory:
        raise IdentityError(
            f"{ROSTER} needs {STATE_DIR} in the node config, with the client's key."
        )
    identity, roster = Identity.load(Path(str(directory))), Roster.load(Path(str(path)))
    if not roster.lists(identity):
        raise IdentityError(f"{path} does not list the key of '{identity.name}' in {directory}.")
    return identity, roster


@contextmanager
def guarded() -> Iterator[None]:
    """Turn whatever goes wrong with a message into a refusal of a fixed reason."""
    try:
        yield
    except (RefusalError, Refusal):
        raise
    except IdentityError as error:
        log.error("%s", error)
        raise RefusalError(f"this client cannot use its {ROSTER} or its key") from None
    except Exception as error:
        log.error("A message of a secure sum could not be answered: %s.", type(error).__name__)
        raise RefusalError("the message cannot be answered") from None
