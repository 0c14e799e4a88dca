"""Whether a training trains: what a user should know who only sees that no error was raised."""

from collections import Counter

from .._log import log
from .report import RoundReport

SEVERAL = 3
"""Rounds in a row without a reply that are more than bad luck."""


class Outcome:
    """Notices rounds that count nobody, and says once why that is."""

    def __init__(self) -> None:
        self.rounds = self.counted = 0
        self._empty = 0
        self._told = self._hinted = False
        self._reasons: Counter[str] = Counter()

    def note(self, report: RoundReport) -> None:
        """Look at a round; several that count nobody in a row are told together."""
        self.rounds += 1
        self.counted += report.counted
        if report.counted:
            self._empty, self._told = 0, False
            self._reasons.clear()
        if report.counted or not report.asked:
            return
        self._empty += 1
        self._reasons.update(report.reasons.values())
        self._reasons += Counter({"no reply": report.absent})
        if not self._told and (report.rejected or self._empty >= SEVERAL):
            since = report.round - self._empty + 1
            rounds = f"Round {since}" if self._empty == 1 else f"Rounds {since} to {report.round}"
            log.warning("%s counted nobody, although nodes were asked: %s.", rounds, self._why())
            self._told = True

    def hint(self, *, metrics: bool) -> None:
        """Say after the first round that counts somebody that metrics do not come by themselves."""
        if self._hinted or not self.counted:
            return
        self._hinted = True
        if not metrics:
            log.info(
                "No client sent a metric: those that may leave it are named at the client, as in "
                'FedAUMod(report=("train_loss",)), and its log says which there are.'
            )

    def finish(self) -> None:
        """Say so if nothing was trained at all."""
        if self.rounds and not self.counted:
            numbers = self.rounds, self._why() or "no node was asked"
            log.error("Nothing was trained: none of %d rounds counted anybody (%s).", *numbers)

    def _why(self) -> str:
        return "; ".join(f"{times} × {reason}" for reason, times in self._reasons.most_common(5))
