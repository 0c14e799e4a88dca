"""`Transform`: the client half of a method.

Every method is a client-side transform of the local update, and a server-side rule over one sum.
The train message names the transform and its parameters; a client knows those of this package and
those that it was given, so that its line stays ``FedAUMod()`` for all methods.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import lru_cache
from typing import Any, ClassVar

from ..arrays import Arrays, added
from ..wire.parts import UPDATE, Parts
from ..wire.requests import TRANSFORM, Refusal

Memory = dict[str, Arrays]


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """What a transform may know about the client's turn in a round.

    Parameters
    ----------
    round : int
        Flower's round, starting at 1.
    weight : float
        The client's weight `ω` in this round, from its history before it.
    counted : int
        The last round in which the client was counted, as far as is known; 0 if there is none.
    memory : Memory
        What `remember` returned when the client was last counted, by name; empty at first.
    model : Arrays
        The model that came with the request.
    """

    round: int
    weight: float
    counted: int = 0
    memory: Memory = field(default_factory=dict)
    model: Arrays = field(default_factory=dict)


class Transform(ABC):
    """Makes what a client sends from its update, its weight and its memory.

    A transform with parameters is a frozen dataclass; their values travel as JSON. One that
    remembers something sets `remembers` and says what by `sums` or by overriding `remember`; one
    whose strategy delivers something after a round overrides `receive` as well.

    Attributes
    ----------
    name : str
        What the train message calls it: the name of the class unless it is given.
    parts : tuple[str, ...]
        The model-shaped parts that it makes, in this order.
    scalars : tuple[str, ...]
        The parts of one value that follow them.
    remembers : bool
        Whether the client keeps a memory.
    sums : tuple[tuple[str, str], ...]
        Memories that are the sum of all that was counted of a part, each with that part.
    recalled : tuple[str, ...] | None
        The parts that `remember` needs of what was sent, which are kept until then; None for all.
    may_forget : bool
        Whether a client that lost its memory may go on without it: the server's own state does not
        depend on it.
    """

    name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = (UPDATE,)
    scalars: ClassVar[tuple[str, ...]] = ()
    remembers: ClassVar[bool] = False
    sums: ClassVar[tuple[tuple[str, str], ...]] = ()
    recalled: ClassVar[tuple[str, ...] | None] = None
    may_forget: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = vars(cls).get("name", cls.__name__)

    def start(self, model: Arrays, turn: Turn) -> Arrays:
        """Return what training starts from: the model that came with the request, by default."""
        return model

    @abstractmethod
    def contribute(self, update: Arrays, turn: Turn) -> Parts:
        """Return the parts that are sent, given the change that training made to its start.

        The arrays of `update` are the transform's own, to change as it likes.
        """

    def remember(self, memory: Memory, sent: Parts) -> Memory:
        """Return the memory once the round of `sent` is known to be counted.

        `sent` is what really left the client: clipped, and rounded to the grid of a secure sum. It
        may be asked for before that is known, so neither `memory` nor `sent` may be changed.
        """
        sums = {name: added(memory.get(name), sent[part]) for name, part in self.sums}
        return {**memory, **sums}

    def receive(self, memory: Memory, delivered: Arrays) -> Memory:
        """Return the memory with what the server delivered after the round, if that arrived.

        `memory` is what `remember` returned for the same round.
        """
        return memory

    def check(self, parts: Parts) -> None:
        """Refuse parts that are not those that it says it makes."""
        if {*parts} != {*self.parts, *self.scalars}:
            raise Refusal(
                f"{type(self).__name__}.contribute made the parts {sorted(parts)}, but must make "
                f"{sorted({*self.parts, *self.scalars})}."
            )

    def to_text(self) -> str:
        """Return name and parameters for a train message."""
        return json.dumps({"name": self.name, **(asdict(self) if is_dataclass(self) else {})})


@dataclass(frozen=True, slots=True, eq=False)
class NextMemory:
    """What a transform will remember, which is made when it is asked for."""

    transform: Transform
    memory: Memory
    sent: Parts

    def __call__(self) -> Memory:
        """Return the memory."""
        return self.transform.remember(self.memory, self.sent)

    def terms(self) -> dict[str, tuple[Arrays, ...]]:
        """Return one or two groups of arrays by name, whose sums are the memory."""
        kind = type(self.transform)
        if not kind.sums or kind.remember is not Transform.remember:
            return {name: (arrays,) for name, arrays in self().items()}
        before = {name: (arrays,) for name, arrays in self.memory.items()}
        return before | {name: (*before.get(name, ()), self.sent[part]) for name, part in kind.sums}


@lru_cache(maxsize=16)
def named_transform(text: str, given: tuple[type[Transform], ...] = ()) -> Transform:
    """Return the transform that a train message names; an unknown one is refused."""
    try:
        parameters = json.loads(text)
        name = parameters.pop("name")
    except (ValueError, TypeError, AttributeError, KeyError):
        raise Refusal(f"{TRANSFORM} is {text!r}, but must be a JSON object with a name.") from None
    known = {kind.name: kind for kind in (*_own(), *given)}
    if name not in known:
        raise Refusal(
            f"{TRANSFORM} names {name!r}, but must name one that this client knows "
            f"({', '.join(sorted(known))}): give it to the client, as in "
            "FedAUMod(transforms=[...])."
        )
    try:
        return known[name](**parameters)
    except (TypeError, ValueError) as error:
        raise Refusal(
            f"{TRANSFORM} is {text!r}, but must have the parameters of {name} ({error})."
        ) from None


def _own() -> list[type[Transform]]:
    """Return the transforms of this package: a message must not reach whatever is loaded."""
    kinds = Transform.__subclasses__()
    return [kind for kind in kinds if kind.__module__.startswith("fedau_flwr.methods.")]
