"""What happens to a contribution between the weighting and the sum.

It is clipped to a norm, rounded to the grid of a secure sum, and given its share of noise, in this
order and as far as the server's message asks for it. All of it happens before the client
remembers what it sent: under `MIFA` and `FedVARP` that memory has to agree with the server's.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import hypot, isfinite, sqrt
from typing import Any, Self

import numpy as np
from flwr.app import RecordDict

from .._log import log
from ..checks import check, is_integer
from ..privacy.clipping import AdaptiveNorm, clip
from ..privacy.generator import SecureGenerator
from ..privacy.noise import share_std
from ..wire.fixed_point import MIN_NOISE_STEPS, FixedPoint, Floats
from ..wire.parts import Parts, scalar
from ..wire.requests import Refusal, Request

PREPARATION = "fedau-preparation"
NOISE_TAIL = 8.0
"""Standard deviations of noise that must fit into the range of a grid beside the values."""
WITHIN = "within"
"""The scalar part that says whether a contribution was within the norm, as ±1/2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How contributions are prepared in one round.

    Noise that is cut off at the edge of the grid is less noise than promised. A contribution is
    refused unless the range holds the norm and eight standard deviations beside it: a value of
    noise then is cut off with probability 1.3e-15, which adds no more to δ per value sent.
    """

    norm: float | None = None  # the largest L2 norm of a contribution, rounding included
    grid: FixedPoint | None = None  # of a secure sum
    noise_std: float = 0.0  # on every value; only on a grid: a plain sum's is the server's to add
    bit_std: float | None = None  # noise on whether it was within the norm; None: do not tell
    colluding: int = 0  # how many clients may know shares of the noise, as far as the server says
    seed: int | None = None  # makes rounding repeat from run to run; noise never does

    def __post_init__(self) -> None:
        for name in ("norm", "bit_std"):
            value = getattr(self, name)
            check(name, value, value is None or _positive(value), "positive and finite")
        fine = self.noise_std == 0 or _positive(self.noise_std)
        check("noise_std", self.noise_std, fine, "finite and not negative")
        check("colluding", self.colluding, is_integer(self.colluding, 0), "an integer >= 0")
        check("seed", self.seed, self.seed is None or is_integer(self.seed, 0), "an integer >= 0")

    @property
    def noise_multiplier(self) -> float:
        """Noise on the sum in units of the norm, less what telling the bit costs; 0 for none."""
        if self.norm is None or not self.noise_std:
            return 0.0
        if self.bit_std is None:
            return self.noise_std / self.norm
        return 1 / hypot(self.norm / self.noise_std, 0.5 / self.bit_std)

    def apply(self, parts: Parts, request: Request) -> Parts:
        """Return the contribution as it will enter the sum, exactly."""
        if self.norm is not None:
            parts, within = self._clipped(parts, self.norm)
            if self.bit_std is not None:
                parts[WITHIN] = scalar(AdaptiveNorm.bit(within))
        if self.grid is None:
            return parts
        try:
            self.check_grid()
            return self._on_grid(parts, self.grid, request)
        except ValueError as error:
            raise Refusal(f"The contribution cannot be rounded: {error}") from None

    def _clipped(self, parts: Parts, norm: float) -> tuple[Parts, bool]:
        """Clip all parts together to one norm; say whether they were within it."""
        arrays = _arrays(parts)
        slack = self.grid.rounding_error(_size(arrays)) if self.grid else 0.0
        try:
            clipped, within = clip(arrays, norm, slack=slack)
        except ValueError as error:
            raise Refusal(f"The contribution cannot be clipped: {error}") from None
        values = iter(clipped)
        return {part: {n: next(values) for n in some} for part, some in parts.items()}, within

    def _on_grid(self, parts: Parts, grid: FixedPoint, request: Request) -> Parts:
        entropy = None if self.seed is None else (self.seed, request.round, request.client or 0)
        rounding = np.random.default_rng(entropy)
        noise = SecureGenerator()
        result: Parts = {part: {} for part in parts}
        clipped = 0
        for part, arrays in parts.items():
            std = self.bit_std if part == WITHIN else self.noise_std
            for name, value in arrays.items():
                on_grid, beyond = grid.round(value, rounding)
                clipped += beyond
                if std:
                    on_grid, beyond = grid.add_noise(on_grid, std, noise)
                    clipped += beyond
                result[part][name] = on_grid
        if clipped:
            log.warning(
                "%.3g %% of the contribution's values are beyond value_range=%s and were clipped.",
                100 * clipped / _size(_arrays(parts)),
                grid.value_range,
            )
        return result

    def check_grid(self) -> None:
        """Refuse noise that the grid cannot carry, and bits that are not on it."""
        if self.grid is None:
            return
        grid = self.grid
        for what, most, std in (
            ("norm", self.norm or 0.0, self.noise_std),
            ("bit", 0.5, self.bit_std or 0.0),
        ):
            if std:
                grid.check_noise("noise", std)
                least = most + NOISE_TAIL * std
                rule = (
                    f"at least {least}, the {what} and {NOISE_TAIL:g} standard deviations of noise"
                )
                check("value_range", grid.value_range, grid.value_range >= least, rule)
        # Rounded up, one client would change the sum of the bits by more than it is charged.
        fine = self.bit_std is None or grid.step <= AdaptiveNorm.bit(True)
        check("the grid's step", grid.step, fine, "at most 1/2, as the bit is")

    def shared(self, survivors: int, colluding: int = 0) -> Self:
        """Return this with one client's share of the noise, enough for a sum over `survivors`.

        It is enough even if `colluding` of them tell the server their own share.
        """
        share = partial(share_std, survivors=survivors, colluding=colluding)
        bit_std = self.bit_std and share(self.bit_std)
        return replace(self, noise_std=share(self.noise_std), bit_std=bit_std)

    def fitted(self, size: int, survivors: Sequence[int]) -> Self:
        """Return this with an adaptive norm that the grid holds, and the noise in proportion.

        A norm that follows the contributions can leave what a fixed grid holds for good: beyond it
        every client would have to refuse, and none be left to bring it back. `size` is that of the
        vector, `survivors` has the fewest clients whose sum each client helps to unmask.
        """
        if self.grid is None or self.norm is None or self.bit_std is None or not self.noise_std:
            return self
        multiplier, step = self.noise_std / self.norm, self.grid.step
        least, most = (sqrt(max(1, of(survivors) - self.colluding)) for of in (min, max))
        highest = self.grid.value_range / (1 + NOISE_TAIL * multiplier / least)
        # Half of the norm is enough for rounding.
        lowest = max(MIN_NOISE_STEPS * step * most / multiplier, 2 * self.grid.rounding_error(size))
        norm = min(max(self.norm, lowest * (1 + 1e-9)), highest * (1 - 1e-9))
        return replace(self, norm=norm, noise_std=multiplier * norm)

    def announce(self, content: RecordDict) -> None:
        """Put this into the config of a train message, which is the one record of this kind."""
        next(iter(content.config_records.values())).update(self.to_config())

    def to_config(self) -> dict[str, str]:
        """Return the entry of a train message's config."""
        return {PREPARATION: json.dumps(asdict(self))}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read what a train message asks for; nothing if it does not say."""
        text = config.get(PREPARATION, "{}")
        try:
            fields = json.loads(text)
            grid = fields.pop("grid", None)
            return cls(**fields, grid=FixedPoint(**grid) if grid else None)
        except (TypeError, ValueError, AttributeError):
            sentence = f"{PREPARATION} is {text!r}, but must be what SecureSum writes."
            raise Refusal(sentence) from None


def _arrays(parts: Parts) -> list[Floats]:
    return [value for arrays in parts.values() for value in arrays.values()]


def _size(arrays: list[Floats]) -> int:
    return sum(array.size for array in arrays)


def _positive(value: object) -> bool:
    return type(value) in (int, float) and isfinite(value) and value > 0  # type: ignore[arg-type,operator]
