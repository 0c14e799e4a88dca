"""Which line has which look, in plots and on the page."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from simulations.methods.base import PALETTE, Look

Looks = Mapping[str, Look | None]


def chosen_looks(labels: Sequence[str], looks: Looks) -> dict[str, Look]:
    """Return a look for each label; those that nobody has as their own come first."""
    taken = [looks.get(label) for label in labels]
    spare = _spare([look for look in PALETTE if look not in taken] or PALETTE)
    return {label: looks.get(label) or next(spare) for label in labels}


def _spare(free: Sequence[Look]) -> Iterator[Look]:
    for number in count():
        look = free[number % len(free)]
        # The second time round, colours meet other line styles.
        other = PALETTE[(PALETTE.index(look) + number // len(free)) % len(PALETTE)]
        yield look._replace(dashes=other.dashes, hatch=other.hatch)
