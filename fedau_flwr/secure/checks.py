"""What a client checks before it gives anything away, whatever the server says."""

from dataclasses import dataclass

from . import crypto
from .client_state import ClientState
from .cohort import SIGNATURE_BYTES, Cohort, Terms, quorum, survivors_statement
from .graph import Topology
from .identity import Roster
from .message import Fields, pack_set, read_blobs, read_set, require


@dataclass(frozen=True)
class Checks:
    """A client's own minimum, what it has the graph meet, and with whom it takes part."""

    min_cohort: int
    topology: Topology
    roster: Roster | None

    def least_survivors(self, state: ClientState) -> int:
        """Return the smallest number of clients whose sum is unmasked."""
        least = max(state.threshold, self.min_cohort)
        return least if self.roster is None else max(least, quorum(state.cohort))

    def cohort(self, cohort: Cohort, client: int, state: ClientState, terms: Terms) -> int:
        """Return the client's place in a cohort that it takes part in."""
        require(client in cohort.places, "the cohort leaves this client out")
        me = cohort.places[client]
        own = cohort.members[me]
        keys = [crypto.public_of(key) for key in (state.share_private, state.mask_private)]
        require([own.share_key, own.mask_key] == keys, "the cohort names other keys of this client")
        for member in cohort.members if self.roster is not None else ():
            require(
                self._verify(member.name, member.signature, terms.statement(member)),
                f"client {member.client} is not in this client's roster, or did not sign the same "
                "round, model, config and roster",
            )
        return me

    def bounds(self, cohort: int, degree: int, threshold: int) -> None:
        """Refuse numbers of holders and thresholds with which a client does not hide."""
        small = f"a cohort of {cohort} is below this client's min_cohort={self.min_cohort}"
        require(cohort >= self.min_cohort, small)
        holders = degree + 1
        require(1 <= degree < cohort, f"{degree} holders cannot be drawn in a cohort of {cohort}")
        wrong = f"threshold {threshold} of {holders} must be more than half and at most all"
        require(holders < 2 * threshold <= 2 * holders, wrong)
        few = f"{holders} holders are below this client's min_cohort={self.min_cohort}"
        require(holders >= self._least_holders(threshold), few)
        require(
            self.topology.bounds(cohort, degree, threshold).secret,
            f"{degree} holders with threshold {threshold} in a cohort of {cohort} do not hide a "
            f"client from {self.topology.colluding:.0%} that collude",
        )

    def hood(self, state: ClientState, left: set[int]) -> None:
        """Refuse to go on once too few of the holders that the client drew are left."""
        holders, needed = {state.me, *state.drawn} & left, self._least_holders(state.threshold)
        few = f"{len(holders)} of this client and its holders are left, and {needed} are needed"
        require(len(holders) >= needed, few)

    def survivors(self, request: Fields, state: ClientState) -> set[int]:
        """Return whose vectors are said to be in the sum."""
        survivors = read_set(request, "survivors", state.cohort)
        counted = state.me in survivors
        require(counted, "this client is asked to unmask a sum without its own vector")
        dealers = read_set({"dealers": state.dealers}, "dealers", state.cohort)
        require(survivors <= dealers, "'survivors' names a client that dealt no shares")
        self.hood(state, survivors)
        needed = self.least_survivors(state)
        few = f"the sum would be over {len(survivors)} clients, and {needed} are needed"
        require(len(survivors) >= needed, few)
        return survivors

    def signatures(self, request: Fields, state: ClientState, survivors: set[int]) -> None:
        """With a roster, take only survivors that more than two thirds of the cohort signed."""
        if self.roster is None:
            return
        packed = pack_set(survivors, state.cohort)
        require(packed == state.survivors, "the survivors are not those that this client signed")
        signers = sorted(read_set(request, "signers", state.cohort))
        signatures = read_blobs(request, "signatures", SIGNATURE_BYTES, len(signers))
        require(survivors >= set(signers), "'signers' names a client that is not in the sum")
        few = f"{len(signers)} clients signed the survivors, and {quorum(state.cohort)} are needed"
        require(len(signers) >= quorum(state.cohort), few)
        names, statement = state.names.split("\n"), survivors_statement(state.transcript, packed)
        for signer, signature in zip(signers, signatures, strict=True):
            signed = self._verify(names[signer], signature, statement)
            require(signed, f"client '{names[signer]}' did not sign these survivors")

    def _least_holders(self, threshold: int) -> int:
        # Without signatures, a client is sure of nobody but those that it drew itself.
        return threshold if self.roster is not None else max(threshold, self.min_cohort)

    def _verify(self, name: str, signature: bytes, statement: bytes) -> bool:
        return self.roster is not None and self.roster.verify(name, signature, statement)
