"""Who holds whose shares in a round, as the server sees it, and what can be recovered from them.

Clients are named by their places in the cohort.
"""

from collections import defaultdict

from .dealing import Dealing
from .graph import parts
from .message import Message, pack_places, pack_set


class Holdings:
    """The dealings of a round, the complaints about them, and whose vectors are in the sum."""

    def __init__(self, cohort: int, degree: int, threshold: int) -> None:
        self.cohort = cohort
        self.degree = degree
        self.threshold = threshold
        self.dealings: dict[int, Dealing] = {}
        self.spoiled: dict[int, set[int]] = {}
        self.counted: set[int] = set()
        self.senders: defaultdict[int, set[int]] = defaultdict(set)
        self.partners: defaultdict[int, set[int]] = defaultdict(set)

    @property
    def survivors(self) -> bytes:
        """Whose vectors are in the sum, as it is sent."""
        return pack_set(self.counted, self.cohort)

    def close_dealing(self) -> set[int]:
        """Leave out, and return, who has too few holders left; join the others by masks."""
        left_out: set[int] = set()
        while lonely := {
            place
            for place, dealing in self.dealings.items()
            if len(self.dealings.keys() & {place, *dealing.holders}) < self.threshold
        }:
            left_out |= lonely
            for place in lonely:
                del self.dealings[place]
        for dealer, dealing in self.dealings.items():
            for holder in self.dealings.keys() & set(dealing.holders):
                self.senders[holder].add(dealer)
                self.partners[holder].add(dealer)
                self.partners[dealer].add(holder)
        return left_out

    def shares_for(self, place: int) -> Message:
        """Return the shares that are meant for one client."""
        senders = sorted(self.senders[place])
        dealings = [self.dealings[sender] for sender in senders]
        numbers = [dealing.holders.index(place) for dealing in dealings]
        dealt = list(zip(dealings, numbers, strict=True))
        return {
            "dealers": pack_set(self.dealings, self.cohort),
            "senders": pack_places(senders),
            "numbers": pack_places(numbers),
            "sealed": b"".join(dealing.sealed[number] for dealing, number in dealt),
            "commitments": b"".join(dealing.commitments[number] for dealing, number in dealt),
        }

    def close_masking(self) -> set[int]:
        """Count whoever sent a vector that can be unmasked; return the others who sent one."""
        self.counted = set(self.spoiled)
        while lonely := {p for p in self.counted if self._acceptors(p) < self.threshold}:
            self.counted -= lonely
        return self.spoiled.keys() - self.counted

    def held(self, place: int) -> set[int]:
        """Return the clients of whose secrets a client has a good share, itself aside."""
        return self.senders[place] - self.spoiled[place]

    def exposed(self) -> set[int]:
        """Return who is out of the sum without enough shares: others know its masks one by one."""
        return {
            place
            for place in self.dealings.keys() - self.counted
            if self.partners[place] & self.counted and self._acceptors(place) < self.threshold
        }

    def parts(self) -> list[set[int]]:
        """Return the parts of the sum that have no mask in common."""
        return parts({place: self.partners[place] & self.counted for place in self.counted})

    def culprits(self) -> dict[int, str]:
        """Return who is in dispute with t others or more, since fewer than t may cheat."""
        disputes: defaultdict[int, set[int]] = defaultdict(set)
        for accuser, accused in self.spoiled.items():
            for dealer in accused:
                disputes[accuser].add(dealer)
                disputes[dealer].add(accuser)
        return {
            place: f"it and {len(others)} others disagree on whether shares were good"
            for place, others in disputes.items()
            if len(others) >= self.threshold
        }

    def _acceptors(self, dealer: int) -> int:
        """Return how many clients in the sum hold a good share of a client's secrets."""
        holders = self.counted.intersection(self.dealings[dealer].holders)
        good = sum(dealer not in self.spoiled[holder] for holder in holders)
        return good + (dealer in self.counted)
