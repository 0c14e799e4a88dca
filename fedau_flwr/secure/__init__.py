"""Secure summation: the server learns the sum of the clients' vectors and nothing else.

The protocol is that of Bonawitz et al. (2017) over the sparse neighbour graph of Bell et al.
(2020), with four exchanges:

1. keys: every client makes two fresh X25519 key pairs and sends the public halves;
2. shares: it shares a random seed and its mask key among its neighbours (Shamir), sealed so that
   the server can only relay;
3. masked vectors: it adds to its vector a mask from its seed, and one per neighbour, which the
   neighbour subtracts;
4. unmasking: neighbours reveal the seed shares of those whose vectors came, and the key shares of
   those whose did not.

**What is promised.** Against a server that follows the protocol but looks at everything, together
with up to t-1 of the clients in any one neighbourhood (t, more than half of it, is the
threshold), each vector stays hidden in the sum over the clients that answered. Clients may vanish
at any exchange, as long as t stay in every neighbourhood. In a sparse graph this holds but for a
chance of 2^-40 per round, within the fractions that `Topology` is given.

**What a malicious server could still do.** It relays the public keys, so it can pose as any
number of clients: keys are not signed here. It can hand different models or grids to different
clients, so that the others' parts of a sum are known or vanish. Node authentication and TLS keep
outsiders out of both roles, not the server itself. It can lie about who dropped out, or choose
the graph; a client still reveals one kind of share per peer and unmasks no sum over fewer than
`min_cohort` members of its neighbourhood, and because t is more than half, two stories about a
client never both reach t, unless clients help: against c helpers in a neighbourhood of n, t must
be more than (n + c)/2 (`Topology(threshold=...)`). Two messages at once to the same client need
its ``fedau-state-dir``, see `SecureSumMod`. The server can spoil a round at will, as can any
client that sends rubbish: the sum is secret, not verified.
"""

from ..wire.fixed_point import FixedPoint
from .client import SecureClient
from .graph import Topology
from .message import Exchange, Message, RefusalError, RoundId, VoidRoundError
from .mod import SecureSumMod
from .payload import Payload
from .server import SecureRound
from .summation import SecureSum

__all__ = [
    "Exchange",
    "FixedPoint",
    "Message",
    "Payload",
    "RefusalError",
    "RoundId",
    "SecureClient",
    "SecureRound",
    "SecureSum",
    "SecureSumMod",
    "Topology",
    "VoidRoundError",
]
