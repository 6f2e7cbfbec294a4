"""The samples of a run by part, measure and contestant, with their medians, extremes and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Line:
    """One row of the table: a measure of a contestant, with one sample per round."""

    part: str
    measure: str
    who: str
    unit: str
    #: The contestant that this one is compared with: the divisor of the ratio. It can be the contestant itself.
    base: str
    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


class Figures:
    """All samples of one run."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str, str], Line] = {}
        #: The contestants that were not measured, and the reason of each.
        self.skipped: dict[str, str] = {}

    def add(self, part: str, measure: str, who: str, value: float, unit: str, *, base: str) -> None:
        """Add a sample."""
        line = self.lines.setdefault((part, measure, who), Line(part, measure, who, unit, base))
        line.samples.append(value)

    def median(self, part: str, measure: str, who: str) -> float | None:
        """Return the median of the samples, or None if the contestant was not measured in this run."""
        line = self.lines.get((part, measure, who))
        return None if line is None else line.median

    def ratio(self, part: str, measure: str, who: str, base: str) -> float | None:
        """Return the median of the ratios to `base` per round, so that other load of a round affects both sides."""
        ours, theirs = self.lines.get((part, measure, who)), self.lines.get((part, measure, base))
        if ours is None or theirs is None:
            return None
        if len(ours.samples) == len(theirs.samples):
            pairs = zip(ours.samples, theirs.samples, strict=True)
            ratios = [mine / other for mine, other in pairs if other]
            return statistics.median(ratios) if ratios else None
        return ours.median / theirs.median if theirs.median else None

    def worst(self, part: str, measure: str, whos: Iterable[str], base: str) -> float | None:
        """Return the largest of the contestants' ratios to `base`, or None if there is none."""
        found = [ratio for who in whos if (ratio := self.ratio(part, measure, who, base)) is not None]
        return max(found, default=None)

    def as_json(self) -> list[dict[str, Any]]:
        """Return all lines with their samples, for a JSON file."""
        return [
            {
                "part": line.part,
                "measure": line.measure,
                "who": line.who,
                "unit": line.unit,
                "median": line.median,
                "lowest": min(line.samples),
                "highest": max(line.samples),
                "base": line.base,
                "ratio": self.ratio(line.part, line.measure, line.who, line.base),
                "samples": line.samples,
            }
            for line in self.lines.values()
        ]

    def table(self) -> str:
        """Return all lines as a text table."""
        rows, part, measure = [], "", ""
        for line in sorted(self.lines.values(), key=self._place):
            if line.part != part:
                rows += ["", f"{line.part:46} {'median':>12} {'lowest – highest':>24}   ratio"]
            if (line.part, line.measure) != (part, measure):
                rows.append(f"  {line.measure}, {line.unit}")
            part, measure = line.part, line.measure
            spread = f"{number(min(line.samples))} – {number(max(line.samples))}"
            ratio = self.ratio(line.part, line.measure, line.who, line.base)
            beside = "" if ratio is None else f"{ratio:.2f} × {line.base}"
            rows.append(f"    {line.who:42} {number(line.median):>12} {spread:>24}   {beside}")
        rows += [f"\nleft out: {name}: {why}" for name, why in self.skipped.items()]
        return "\n".join(rows[1:])

    def _place(self, line: Line) -> tuple[int, int]:
        """Return a sort key that orders parts and measures by their first sample."""
        keys = list(self.lines)
        parts, measures = [key[0] for key in keys], [key[:2] for key in keys]
        return parts.index(line.part), measures.index((line.part, line.measure))


def number(value: float) -> str:
    """Return the value as text with at least three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
