"""Secure summation: the server learns the sum of the clients' vectors and nothing else.

The protocol is that of Bonawitz et al. (2017) over a sparse graph that the clients draw themselves
(Bell et al. 2020), message by message in this directory's README.md:

1. keys: every client makes two fresh X25519 key pairs and sends the public halves, together with
   the hashes of what the round is about; with a roster it signs them;
2. shares: it shares a random seed and its mask key among holders that it draws (Shamir), sealed so
   that the server can only relay;
3. masked vectors: it adds to its vector a mask from its seed, and one per client that it drew or
   was drawn by, which the other subtracts;
4. consistency, with a roster: the clients sign whose vectors are in the sum;
5. unmasking: holders reveal the seed shares of those whose vectors came, and the key shares of
   those whose did not.

**What is promised.** Without a roster: against a server that follows the protocol but looks at
everything, together with up to t-1 of any client's holders (t, more than half of them, is the
threshold), each vector stays hidden in the sum over the clients that answered. With a roster also
against a server that does not follow the protocol, together with fewer than a third of the cohort.
Clients may vanish at any exchange. The sum is secret, not verified: any client can spoil it.
"""

from ..wire.fixed_point import FixedPoint
from .client import SecureClient
from .graph import Topology
from .identity import Identity, IdentityError, Roster
from .message import Exchange, Message, RefusalError, RoundId, VoidRoundError
from .mod import SecureSumMod
from .payload import Payload
from .server import SecureRound
from .summation import SecureSum

__all__ = [
    "Exchange",
    "FixedPoint",
    "Identity",
    "IdentityError",
    "Message",
    "Payload",
    "RefusalError",
    "Roster",
    "RoundId",
    "SecureClient",
    "SecureRound",
    "SecureSum",
    "SecureSumMod",
    "Topology",
    "VoidRoundError",
]
