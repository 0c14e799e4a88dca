"""Participation of devices that are on and off at certain seconds of a recorded time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check, check_count, check_positive
from .draws import Draws
from .process import Process


class Timeline(Process):
    """A client is there in round ``t`` if its device is on at second ``t·round_seconds``.

    Each device repeats itself after its own period. The edges of all devices are one sorted array,
    in which a round looks up every client at once: a binary search each, whatever the length of
    the recording.

    Parameters
    ----------
    stretches : sequence of arrays [any, 2]
        For each device the seconds at which it goes on and off, rising, within its period.
    periods : array of positive numbers
        Seconds after which each device repeats itself.
    round_seconds : float
        Length of a round.
    starts : array, optional
        When each device's recording begins, on the clock of all; 0 by default.
    clients : int, optional
        Number of clients; that of the devices by default.
    seed : int, optional
        Draws which client has which device. Of more clients than devices several have the same.
        Without a seed client n has device n, and those beyond the devices never come.
    """

    def __init__(
        self,
        stretches: Sequence[ArrayLike],
        periods: ArrayLike,
        *,
        round_seconds: float,
        starts: ArrayLike = 0.0,
        clients: int | None = None,
        seed: int | None = None,
    ) -> None:
        check_positive("round_seconds", round_seconds)
        devices = len(stretches)
        check("stretches", stretches, devices, "those of at least one device")
        super().__init__(check_count("clients", devices if clients is None else clients))
        self.round_seconds = round_seconds
        edges = [np.asarray(some, np.float64).reshape(-1) for some in stretches]
        self._periods = np.asarray(periods, np.float64)
        alike = self._periods.shape == (devices,)
        check("the shape of periods", self._periods.shape, alike, f"({devices},), one per device")
        self._starts = np.broadcast_to(np.asarray(starts, np.float64), (devices,))
        # Device after device on one line, with a gap so that none touches the next.
        self._offsets = np.concatenate([[0.0], np.cumsum(self._periods[:-1] + 1.0)])
        counts = np.array([len(some) for some in edges])
        flat = np.concatenate(edges)
        self._edges = flat + np.repeat(self._offsets, counts)
        _check(flat, self._edges, counts, self._periods)
        on = flat[1::2] - flat[::2]
        owners = np.repeat(np.arange(devices), counts // 2)
        self._shares = np.bincount(owners, on, devices) / self._periods
        self._device = _dealt(self.clients, devices, seed)

    @property
    def probability(self) -> NDArray[np.float64]:
        """Share of its period for which each client's device is on."""
        shares = self._shares[self._device % len(self._shares)]
        return np.where(self._device >= 0, shares, 0.0)

    def _active(self, t: int) -> NDArray[np.bool_]:
        now = (t * self.round_seconds - self._starts) % self._periods
        passed = np.searchsorted(self._edges, self._offsets + now, side="right")
        # Every device has as many edges on as off, so an odd number passed is a device that is on.
        on = passed % 2 == 1
        return np.asarray(on[self._device] & (self._device >= 0))


def _dealt(clients: int, devices: int, seed: int | None) -> NDArray[np.int64]:
    """Return the device of each client, -1 for none."""
    numbers = np.arange(clients)
    if seed is None:
        return np.where(numbers < devices, numbers, -1)
    order = np.argsort(Draws(seed, "devices").uniforms(0, devices), kind="stable")
    return np.asarray(order[numbers % devices], np.int64)


def _check(
    flat: NDArray[np.float64],
    line: NDArray[np.float64],
    counts: NDArray[np.int64],
    periods: NDArray[np.float64],
) -> None:
    """Raise ValueError about the first device that is not on and off in turn in its period."""
    fine = (periods > 0) & (periods < np.inf) & (counts % 2 == 0)
    owners = np.repeat(np.arange(len(periods)), counts)
    falls = np.flatnonzero(np.diff(line) < 0)
    beyond = np.flatnonzero(~((flat >= 0) & (flat <= periods[owners])))
    fine[owners[falls]] = fine[owners[beyond]] = False
    if not fine.all():
        device = int(np.argmin(fine))
        start = int(counts[:device].sum())
        rule = f"on and off in turn, from 0 to its period, {periods[device]:g}"
        shown = flat[start : start + min(int(counts[device]), 8)].tolist()
        check(f"stretches[{device}]", shown, False, rule)
