"""Tables of what `memory_sets` measured: python3 -m models.research.evaluate.memory_report FILE...

A unit is a table and a seed. Differences are paired: each unit's own, then their mean and its
standard error. Writes Markdown to standard output.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

ORDER = (
    "random", "stratified", "stratified_w", "rows_mass", "rows_mass_w", "rows_sample_w", "local",
    "local_half",
    "kv_random", "kv_random_w", "context_sums", "heavy_mass", "heavy_mass_w", "heavy_effect",
    "heavy_effect_w", "sample_mass", "sample_mass_w", "sample_effect_w", "merge", "merge_w",
    "merge_mean_w", "heavy_fit_w", "merge_fit_w",
)  # fmt: skip

Line = dict[str, Any]  # of a file
Key = tuple[int, int, str]  # N, M, method


class Difference(NamedTuple):
    mean: float
    error: float  # standard error of the mean
    units: int

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f}"


def by_unit(lines: Iterable[Line], score: str) -> dict[Key, dict[tuple[str, int], float]]:
    found: dict[Key, dict[tuple[str, int], float]] = defaultdict(dict)
    for line in lines:
        if score in line:
            found[line["n"], line["m"], line["method"]][line["table"], line["seed"]] = line[score]
    return found


def summary(values: list[float]) -> Difference:
    many = len(values) > 1
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if many else float("nan")
    return Difference(float(np.mean(values)), error, len(values))


def differences(lines: Iterable[Line], score: str, against: str) -> dict[Key, Difference]:
    """Of each method less `against` at the same N and M, over the units that both have."""
    units = by_unit(lines, score)
    found = {}
    for (n, m, method), values in units.items():
        base = units.get((n, n if against == "all" else m, against), {})
        both = [values[unit] - base[unit] for unit in values if unit in base]
        if both:
            found[n, m, method] = summary(both)
    return found


def methods(keys: Iterable[Key]) -> list[str]:
    names = {method for _, _, method in keys} - {"all", "truth"}
    return [name for name in ORDER if name in names] + sorted(names - set(ORDER))


def table(cells: dict[Key, Difference], form: str = "{}", pick: str = "") -> list[str]:
    """A row for each method, a column for each N and M."""
    columns = sorted({(n, m) for n, m, method in cells if method not in ("all", "truth")})
    lines = ["| | " + " | ".join(f"{n:,} → {m:,}" for n, m in columns) + " |"]
    lines.append("| --- " * (1 + len(columns)) + "|")
    for method in methods(cells):
        values = [cells.get((n, m, method)) for n, m in columns]
        if not any(values):
            continue
        shown = [
            "-" if value is None else form.format(getattr(value, pick) if pick else value)
            for value in values
        ]
        lines.append(f"| `{method}` | " + " | ".join(shown) + " |")
    return lines


def means(lines: Iterable[Line], score: str) -> dict[Key, Difference]:
    return {key: summary(list(v.values())) for key, v in by_unit(lines, score).items()}


def whole(lines: list[Line]) -> list[str]:
    """All rows at each N, against the truth where it is known."""
    found = ["| rows | units | log-density | CRPS | joint | sums in 90 % | buffer's share "]
    found[0] += "| truth less all |"
    found.append("| --- " * 8 + "|")
    scores = ("log_density", "crps", "joint", "inside", "share")
    cells = {score: means(lines, score) for score in scores}
    density = by_unit(lines, "log_density")
    for n in sorted({n for n, _, _ in density}):
        row = [cells[score][n, n, "all"] for score in scores]
        truth, every = density.get((n, 0, "truth"), {}), density[n, n, "all"]
        gap = summary([truth[unit] - every[unit] for unit in truth]) if truth else "-"
        texts = [f"{row[0].mean:.3f}", f"{row[1].mean:.4f}", f"{row[2].mean:.3f}"]
        texts += [f"{100 * row[3].mean:.1f} %", f"{100 * row[4].mean:.1f} %", str(gap)]
        found.append(f"| {n:,} | {row[0].units} | " + " | ".join(texts) + " |")
    return found


def of_tables(lines: list[Line], score: str, against: str, n: int, m: int) -> list[str]:
    """One N and M: a row for each method, a column for each table."""
    names = list(dict.fromkeys(line["table"] for line in lines if line["n"] == n))
    cells = {
        name: differences([line for line in lines if line["table"] == name], score, against)
        for name in names
    }
    found = ["| | " + " | ".join(names) + " |", "| --- " * (1 + len(names)) + "|"]
    for method in methods(key for part in cells.values() for key in part):
        shown = [str(cells[name].get((n, m, method), "-")) for name in names]
        found.append(f"| `{method}` | " + " | ".join(shown) + " |")
    return found


def against_one(lines: list[Line], name: str) -> list[str]:
    """Differences to one method, and what `memory_sets --arms` notes of each arm."""
    text: list[str] = []
    for score in ("log_density", "joint", "crps", "sum_crps", "inside"):
        text += ["", f"## {score}, less that of `{name}`", ""]
        text += table(differences(lines, score, name))
    notes = (("within", "{:.4f}"), ("distances", "{:,.0f}"), ("seconds", "{:.2f}"))
    for score, form in notes:
        cells = means(lines, score)
        if cells:
            text += ["", f"## {score}", "", *table(cells, form, "mean")]
    for n, m in sorted({(line["n"], line["m"]) for line in lines if 0 < line["m"] < line["n"]}):
        text += ["", f"## Tables, {n:,} rows, M = {m:,}: log-density less `{name}`", ""]
        text += of_tables(lines, "log_density", name, n, m)
    return text


def page(lines: list[Line], against: str = "") -> str:
    text = ["## All rows", "", *whole(lines)]
    if against:
        text += against_one(lines, against)
    for score, title in (("log_density", "Log-density"), ("joint", "Joint log-density of 16")):
        for against in ("random", "all"):
            text += ["", f"## {title}, less that of `{against}`", ""]
            text += table(differences(lines, score, against))
    for score in ("crps", "sum_crps"):
        text += ["", f"## {score}, less that of `random`", ""]
        text += table(differences(lines, score, "random"))
    for score, form in (("inside", "{:.3f}"), ("share", "{:.3f}"), ("distance", "{:.3f}")):
        text += ["", f"## {score}", "", *table(means(lines, score), form, "mean")]
    for score in ("rare", "ordinary"):
        cells = differences(lines, score, "random")
        if cells:
            text += ["", f"## Table `rare`: {score} rows, less `random`", "", *table(cells)]
    for n in sorted({line["n"] for line in lines}):
        for m in sorted({line["m"] for line in lines if line["n"] == n and line["m"] < n}):
            if m:
                text += ["", f"## Tables, {n:,} rows, M = {m:,}: log-density less `random`", ""]
                text += of_tables(lines, "log_density", "random", n, m)
    return "\n".join(text) + "\n"


def read(paths: Iterable[pathlib.Path]) -> list[Line]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m models.research.evaluate.memory_report", description=__doc__
    )
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--against", default="", metavar="METHOD", help="tables less this one too")
    options = parser.parse_args()
    print(page(read(options.files), options.against), end="")


if __name__ == "__main__":
    main()
