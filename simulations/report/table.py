"""A table whose numbers have a spread, as Markdown, CSV and on a terminal."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

import numpy as np
import rich.box
import rich.table

_LONGEST = 24
_HUGE = 1e6
"""Such a loss is about to become infinite; nobody wants to count its digits."""


def shortened(number: float, digits: int = 1) -> str:
    """Return a number with so many digits after its point, a huge one by its magnitude."""
    return f"{number:.1e}" if abs(number) >= _HUGE else f"{number:.{digits}f}"


@dataclass(frozen=True)
class Spread:
    """A mean over seeds and their standard deviation, None for a single one."""

    mean: float
    std: float | None = None
    digits: int = 1

    @classmethod
    def of(cls, values: Sequence[object], *, scale: float = 100.0, digits: int = 1) -> Self:
        """Return mean and (sample) standard deviation of `values`, times `scale`."""
        numbers = scale * np.array(values, dtype=np.float64)
        std = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
        return cls(float(numbers.mean()), std, digits)

    def __str__(self) -> str:
        if not np.isfinite(self.mean):
            return "no number"
        text = shortened(self.mean, self.digits)
        if self.std is None or abs(self.mean) >= _HUGE:
            return text
        return f"{text} ± {self.std:.{self.digits}f}"

    def csv(self) -> list[str]:
        """Return mean and standard deviation as texts, empty for what is not there."""
        values = (self.mean, np.nan if self.std is None else self.std)
        return [f"{value:.6g}" if np.isfinite(value) else "" for value in values]


Cell = str | Spread


@dataclass(eq=False)
class Table:
    """Rows under a header; `name` is the one of its CSV file."""

    name: str
    title: str
    header: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    remark: str = ""

    def without_empty_columns(self) -> Self:
        """Return the table without the columns in which nothing is said."""
        kept = [i for i in range(len(self.header)) if any(row[i] != "" for row in self.rows)]
        rows = [[row[i] for i in kept] for row in self.rows]
        return replace(self, header=[self.header[i] for i in kept], rows=rows)

    def markdown(self) -> str:
        """Return the table in Markdown, with its title."""
        lines: list[Sequence[Cell]] = [self.header, ["---"] * len(self.header), *self.rows]
        cells = [[str(cell).replace("|", "\\|") for cell in line] for line in lines]
        text = "\n".join(f"| {' | '.join(line)} |" for line in cells)
        remark = f"\n{self.remark}\n" if self.remark else ""
        return f"## {self.title}\n\n{text}\n{remark}"

    def csv(self) -> str:
        """Return the table as CSV: a number with a spread takes two columns, mean and std."""
        places = range(len(self.header))
        two = [any(isinstance(row[place], Spread) for row in self.rows) for place in places]
        names = zip(self.header, two, strict=True)
        lines = [[[f"{name} mean", f"{name} std"] if both else [name] for name, both in names]]
        for row in self.rows:
            cells = zip(row, two, strict=True)
            texts = [c.csv() if isinstance(c, Spread) else [c, ""][: 1 + both] for c, both in cells]
            lines.append(texts)
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(chain(*line) for line in lines)
        return file.getvalue()

    def rich(self) -> rich.table.Table:
        """Return the table for a terminal."""
        table = rich.table.Table(
            title=self.title, title_justify="left", caption=self.remark or None,
            caption_justify="left", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
        )  # fmt: skip
        for place, name in enumerate(self.header):
            # A header may be broken between words; what is in the cells may not.
            texts = [*name.split(), *(str(row[place]) for row in self.rows)]
            table.add_column(name, min_width=min(max(map(len, texts), default=0), _LONGEST))
        for row in self.rows:
            table.add_row(*map(str, row))
        return table
