"""A cell: one table, process or series at one context size. Methods are scored on its draws."""

from __future__ import annotations

import dataclasses
import hashlib

from models.research.evaluate import protocol, series, synthetic, tables
from models.research.evaluate.split import Split

PARTS = ("tables", "gp", "forecast", "series")


@dataclasses.dataclass(frozen=True)
class Cell:
    """Names only, so that it travels to worker processes cheaply."""

    part: str  # one of PARTS
    name: str
    size: str

    def __str__(self) -> str:
        return f"{self.part}/{self.name}/{self.size}"

    def split(self, draw: int) -> Split:
        """Draw number `draw`, the same on every machine."""
        if self.part == "tables":
            return protocol.split(tables.load(self.name), self.size, draw)
        if self.part == "gp":
            return synthetic.gp_split(self.name, self.size, draw)
        if self.part == "forecast":
            return synthetic.forecast_split(self.name, self.size, draw)
        return series.split(self.name, self.size, draw)

    def fingerprint(self) -> str:
        """Changes when the data behind the cell do."""
        if self.part == "tables":
            return protocol.fingerprint(tables.load(self.name))
        if self.part == "series":
            content = series.load(self.name).round(9).tobytes()
        elif self.part == "gp":
            content = repr(synthetic.GP_PROCESSES[self.name]).encode()
        else:
            content = repr(synthetic.FORECAST_PROCESSES[self.name]).encode()
        return hashlib.sha256(content).hexdigest()[:12]

    def rows(self) -> int:
        """Nctx."""
        if self.part == "tables":
            return protocol.context_rows(self.size, len(tables.load(self.name).y))
        return int(self.size)


def names(part: str) -> list[str]:
    """The tables, processes or series of a part."""
    sources = {
        "tables": tables.SOURCES,
        "gp": synthetic.GP_PROCESSES,
        "forecast": synthetic.FORECAST_PROCESSES,
        "series": series.SOURCES,
    }
    return list(sources[part])


def of_name(part: str, name: str) -> list[Cell]:
    """The cells of one table, process or series, by growing context."""
    if part == "tables":
        sizes = protocol.sizes(len(tables.load(name).y))
    elif part == "series":
        sizes = series.sizes(name)
    else:
        sizes = map(str, synthetic.GP_SIZES if part == "gp" else synthetic.FORECAST_SIZES)
    return [Cell(part, name, size) for size in sizes]


def of_part(part: str) -> list[Cell]:
    """All cells of a part."""
    return [cell for name in names(part) for cell in of_name(part, name)]
