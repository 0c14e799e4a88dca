"""`PrivateSum`: differential privacy as a wrapper around any summation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Message

from ..client.preparation import WITHIN, Preparation
from ..server.summation import Round, Sum, Summation
from ..wire.parts import SCALAR, Parts
from .noise import add_noise

if TYPE_CHECKING:
    from .gaussian import GaussianPrivacy


class PrivateSum(Summation):
    """Has contributions clipped, and puts noise on their sum.

    Over a plain sum the server adds the noise; over a secure one the clients do, each a share.
    """

    def __init__(self, summation: Summation, privacy: GaussianPrivacy) -> None:
        summation.check_noise(privacy.norm, privacy.sum_std, privacy.bit_std)
        self.inner = summation
        self.privacy = privacy
        self.secure = summation.secure
        self.scalars = (*summation.scalars, *((WITHIN,) if privacy.adaptive else ()))

    def __repr__(self) -> str:
        return f"PrivateSum({self.inner!r}, {self.privacy!r})"

    def rounds_left(self, wanted: int) -> int:
        """Return how many of the wanted rounds the budget has room for."""
        return self.privacy.rounds_left(self.inner.rounds_left(wanted))

    def open(self, this: Round, messages: list[Message]) -> list[Message]:
        """Say in the train messages how contributions are clipped, and with how much noise."""
        preparation = Preparation(
            norm=self.privacy.norm, noise_std=self.privacy.sum_std, bit_std=self.privacy.bit_std
        )
        for message in messages:
            preparation.announce(message.content)
        return self.inner.open(this, messages)

    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up, with noise; account for it before anybody sees the sum."""
        result = self.inner.close(this, replies)
        if result.parts is None:
            return result
        if not self.secure:
            result.parts = self._noisy(result.parts)
        bits = result.parts.pop(WITHIN, None)
        noisy = None if bits is None else float(bits[SCALAR])
        self.privacy.released(noisy, len(result.clients))
        return result

    def _noisy(self, parts: Parts) -> Parts:
        rng = np.random.default_rng()
        noisy: Parts = {}
        for part, arrays in parts.items():
            std = self.privacy.bit_std if part == WITHIN else self.privacy.sum_std
            values = add_noise(list(arrays.values()), std or 0.0, rng)
            noisy[part] = dict(zip(arrays, values, strict=True))
        return noisy

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {**self.inner.state_dict(), **self.privacy.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.inner.load_state_dict(state)
        self.privacy.load_state_dict(state)
