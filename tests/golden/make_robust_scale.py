#!/usr/bin/env python3
"""Makes tests/golden/robust_scale.json: columns, and how the server and the training code must scale
them. Slow and plain on purpose, in extended precision, and independent of both.

Usage: make_robust_scale.py [FILE]

README.md in this folder says what the file holds.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys
from fractions import Fraction

import numpy as np

OUTPUT = pathlib.Path(__file__).with_name("robust_scale.json")
FEATURE_BULK, TARGET_BULK = 8.0, 2.0
GAP, ERRORS, AGREEMENT = 30, 50, 5
ATOMS = 3

Real = np.longdouble
LARGEST = Real(np.finfo(np.float64).max)
Cells = list[float | None]  # None is missing
Column = dict[str, object]


def quantile(ordered: list[Real], quarters: int) -> Real:
    """Linear between the two cells next to it."""
    steps = quarters * (len(ordered) - 1)
    low = ordered[steps // 4]
    high = ordered[min(steps // 4 + 1, len(ordered) - 1)]
    return low + (high - low) * Real(steps % 4) / 4


def deviation(numbers: list[Real]) -> Real:
    mean = sum(numbers, Real(0)) / len(numbers)
    return np.sqrt(sum(((x - mean) ** 2 for x in numbers), Real(0)) / len(numbers))


class Bulk:
    """Where most of some numbers lie, which are not all equal."""

    def __init__(self, numbers: list[Real]):
        self.median = quantile(sorted(numbers), 2)
        self.low = self.high = self.median  # the centre
        self.scale: Real | None = None  # None: nothing lies far outside
        others = sorted(numbers)
        self.atom: Real | None = None
        for atoms in range(ATOMS + 1):
            if len(set(others)) < 2:
                break
            middle = quantile(others, 2)
            self.low, self.high = min(self.low, middle), max(self.high, middle)
            spread = quantile(others, 3) - quantile(others, 1)
            if spread > 0:
                self.scale = spread / Real("1.349")
                break
            if atoms == 0:
                self.atom = middle
            others = [x for x in others if x != middle]
        equal = sum(x == self.median for x in numbers)
        self.all_but_constant = self.atom is not None and bool(equal >= 99 * len(numbers) // 100)

    def distance(self, x: Real) -> Real:
        if self.scale is None:
            return Real(0)
        return min(max(x - self.high, self.low - x, Real(0)) / self.scale, LARGEST)

    def at(self, distance: Real, x: Real) -> Real:
        """The number so far from the centre, on the side of x."""
        assert self.scale is not None
        return self.high + self.scale * distance if x > self.high else self.low - self.scale * distance

    def squash(self, x: Real, most: Real) -> Real:
        z = self.distance(x)
        return x if z <= most else self.at(most + np.log1p(z - most), x)


def target_limit(numbers: list[Real], bulk: Bulk) -> Real | None:
    """The distance to which the target's wrong values are brought, in robust deviations, or None:
    there are none. Of one to so many that are farthest away, the most that are far from the others;
    no three of them may agree; beside an atom one is, or two that do not agree."""
    far = sorted((bulk.distance(x) for x in numbers), reverse=True)
    for count in range(max(1, len(numbers) // ERRORS), 0, -1):
        group = 3 if bulk.atom is None else 2
        agree = any(far[i] <= AGREEMENT * far[i + group - 1] for i in range(count - group + 1))
        if agree or (bulk.atom is not None and count > 2):
            continue
        limit = max(Real(TARGET_BULK), far[count])
        if far[count - 1] > GAP * limit:
            return limit
    return None


def nearest_of(known: list[Real], x: Real) -> Real:
    """Exactly: the distances of a huge number from small ones differ by less than a rounding."""
    return min(known, key=lambda other: (abs(Fraction(float(x)) - Fraction(float(other))), other))


def exact(x: Real | None) -> float | None:
    return None if x is None else float(x)


def scaled(name: str, kind: str, most: float, context: Cells, request: Cells) -> Column:
    known = [Real(x) for x in context if x is not None]
    column: Column = {"name": name, "kind": kind, "k": most, "context": context, "request": request}
    constant = len(set(known)) <= 1
    complete = len(known) == len(context)
    column["left_out"] = kind != "target" and (not known or (constant and complete))
    if column["left_out"]:
        nothing = None if not known else 0.0
        column |= {"constant_in_bulk": False, "median": None, "scale": None, "mean": None, "std": None}
        column["context_values"] = [nothing for _ in context]
        column["request_values"] = [nothing for _ in request]
        return column

    bulk = None if constant else Bulk(known)
    constant_in_bulk = bulk is None or bulk.all_but_constant

    limit = None
    if kind == "target" and bulk is not None:
        limit = target_limit(known, bulk)
        column["limit"] = exact(limit)

    def drawn_in(x: Real) -> Real:
        if bulk is None:
            return x
        if kind != "target":
            return bulk.squash(x, Real(most))
        return x if limit is None or bulk.distance(x) <= limit else bulk.at(limit, x)

    def value(x: Real) -> Real:
        return (x - mean) / std

    inside = [drawn_in(x) for x in known]
    if constant:
        mean, std = known[0], abs(known[0]) or Real(1)
    else:
        mean, std = sum(inside, Real(0)) / len(inside), deviation(inside)
        if kind != "target" and bulk is not None and bulk.atom is not None and bulk.scale is not None:
            std = max(std, deviation([drawn_in(x) for x in known if x != bulk.atom]))

    def request_value(cell: float | None) -> Real | None:
        if cell is None:
            return None
        x = Real(cell)
        if kind == "target":
            return value(x)
        if kind == "numeric" and constant_in_bulk:
            x = nearest_of(known, x)
        return value(drawn_in(x))

    column |= {
        "constant_in_bulk": constant_in_bulk,
        "median": exact(known[0] if bulk is None else bulk.median),
        "scale": exact(None if bulk is None else bulk.scale),
        "mean": exact(mean),
        "std": exact(std),
        "context_values": [exact(None if x is None else value(drawn_in(Real(x)))) for x in context],
        "request_values": [exact(request_value(x)) for x in request],
    }
    return column


def columns() -> list[Column]:
    random = np.random.default_rng(29)

    def round_numbers(numbers: np.ndarray) -> Cells:
        return [float(f"{x:.6g}") for x in numbers]

    def feature(name: str, context: Cells, request: Cells, kind: str = "numeric") -> None:
        made.append(scaled(name, kind, FEATURE_BULK, context, request))

    def target(name: str, context: Cells, request: Cells) -> None:
        made.append(scaled(name, "target", TARGET_BULK, context, request))

    made: list[Column] = []
    normal = round_numbers(random.normal(20, 3, 24))
    ordinary = [0.0, 18.25, 20.0, 31.5, None, 45.0, 1e6, -1e6]
    feature("ordinary", normal, ordinary)
    feature("ordinary, odd number of cells", normal[:23], ordinary)
    feature("two rows", [1.0, 4.0], [1.0, 2.0, 100.0, -1e30])
    feature("five rows, one far away", [1.0, 2.0, 3.0, 4.0, 1e4], [0.0, 1e4, 1e5])
    heavy = round_numbers(random.standard_t(1.2, 41))
    feature("heavy tails", heavy, [0.0, 7.5, -40.0, 1e5])
    feature("one cell 999999", [*normal[:9], 999999.0, *normal[9:]], [18.0, 999999.0, 1e7, None])
    feature("one cell -9999", [-9999.0, *normal], [18.0, -9999.0, 9999.0])
    feature("with missing cells", [None, *heavy[:12], None, None, 1e5, *heavy[12:20], None], [None, 3.0, -1e5])
    zeros = [0.0] * 33 + round_numbers(np.exp(random.normal(0, 1.5, 7)))
    zeros = [zeros[i] for i in random.permutation(len(zeros))]
    feature("most cells zero", zeros, [0.0, 1.0, -1.0, 30.0, 1e4])
    rare = [1.0 if i % 20 == 7 else 0.0 for i in range(60)]
    feature("two values, one of them rare", rare, [0.0, 1.0, 0.5, 2.0, -50.0])
    amounts = [0.0] * 190 + round_numbers(random.uniform(10, 100, 10))
    amounts = [amounts[i] for i in random.permutation(len(amounts))]
    feature("amounts, mostly zero", amounts, [0.0, 50.0, -20.0, 400.0, 1e6, None])
    feature("amounts, mostly zero, one cell corrupt", [*amounts[:50], 1e7, *amounts[50:]], [0.0, 50.0, 1e7])
    far = [0.0] * 40 + [1000.0, 1000.5, 1001.0, 1001.25]
    feature("amounts, mostly zero, the others far away and close to each other", far, [0.0, 500.0, 1000.0, 1020.0])
    counts = [float(x) for x in [0] * 60 + [1] * 16 + [2] * 3 + [3, 5, 4, 7]]
    feature("counts, two atoms", counts, [0.0, 1.0, 6.0, 40.0, 1e5])
    feature("counts, four atoms", [0.0] * 81 + [1.0] * 27 + [2.0] * 9 + [3.0] * 3 + [4.0], [0.0, 4.0, 9.0])
    odd = [3.5] * 120
    odd[70] = 10.5
    feature("all but constant", odd, [3.5, 10.5, 7.0, 7.25, 1e9, -1e9, None])
    odd = [0.0] * 250
    odd[3], odd[200] = 20.0, 10.0
    odd[17] = None
    feature("all but constant, two others, one missing", odd, [5.0, 15.0, 15.5, 12.0, -3.0, 1e300])
    feature("all but constant, few rows", [1.0] * 15 + [-9999.0], [1.0, 2.0, -4999.0, -9999.0, -1e5])
    feature("constant", [0.1] * 12, [0.1, 7.0, None, -1e300])
    feature("constant zero", [0.0] * 12, [0.0, 5.0])
    feature("constant, one cell missing", [2.5, 2.5, None, 2.5, 2.5], [2.5, 1e6, None, -1.0])
    feature("constant zero, cells missing", [None, 0.0, 0.0, None], [0.0, 3.0, None])
    feature("empty", [None] * 6, [1.0, None, -2.0])
    feature("a single row", [42.0], [42.0, 43.0])
    feature("a single cell", [None, 42.0, None], [42.0, 43.0, None])
    feature("numbers near 1e300", [x * 1e299 for x in normal], [2e300, 0.0, 4e300, -1e300, 9e300])
    feature("one cell 1e300", [*normal, 1e300], [18.0, 1e300, -1e300, 1e308])
    feature("one cell 1e300 among tiny numbers", [*(x * 1e-20 for x in normal), 1e300], [2e-19, 1e300])
    feature("all but constant, one cell 1e300", [2.0] * 40 + [1e300], [2.0, 1e299, 6e299, 1e308])
    feature("codes", [0.0, 2.0, 1.0, 1.0, 3.0, 2.0, 0.0, None, 2.0, 1.0], [0.0, 3.0, None], "categorical")
    many = [float(x) for x in np.minimum(random.geometric(0.55, 80) - 1, 6)]
    many[11], many[12] = 7.0, 8.0
    many[13], many[14] = 9.0, 10.0
    feature("codes, a long tail", many, [0.0, 1.0, 5.0, 10.0, None], "categorical")
    codes = [0.0] * 140 + [1.0]
    feature("codes, all but constant", codes, [0.0, 1.0, None], "categorical")
    feature("codes, one category", [0.0] * 8, [0.0, None], "categorical")
    feature("codes, one category and missing", [0.0, None, 0.0, 0.0], [0.0, None], "categorical")
    target("target", normal, [18.0, 45.0, 1e6, -1e6])
    target("target, heavy tails", heavy, [0.0, 7.5, -40.0, 1e5])
    target("target, one cell corrupt", [*normal, 3020.0], [18.0, 45.0, 3020.0])
    target("target, most zero", zeros, [0.0, 1.0, 30.0])
    target("target, one cell beyond the gap", [*normal, 1e6], [18.0, 45.0, 1e6])
    target("target, one cell within the gap", [*normal, 150.0], [18.0, 150.0])
    target("target, heavy tails and a far cell", [*heavy, -20.0, 900.0, 1.0, 2.0], [0.0, 900.0])
    target("target, heavy tails and a wrong cell", [*heavy, -20.0, -99999.0], [0.0, -99999.0])
    many = round_numbers(random.normal(-5, 2, 149))
    target("target, two wrong cells of 150, three may be", [*many[:60], 1e5, -1e6, *many[60:148]], [-5.0, 1e5])
    target("target, three wrong cells of 149, two may be", [*many[:60], 1e5, -1e6, 2e5, *many[60:146]], [-5.0])
    target("target, one wrong, one far behind it", [*many, 1e6, 1e3], [-5.0, 1e3, 1e6])
    some = round_numbers(np.random.default_rng(7).normal(100, 10, 200))
    target("target, three of 203 that agree", [*some, 5e4, 6e4, 4e4], [100.0, 5e4])
    target("target, three of 203 that differ", [*some, 5e4, 6e6, 4e5], [100.0, 5e4])
    target("target, most zero, one wrong", [*zeros, 1e5], [0.0, 30.0])
    claims = [0.0] * 985 + round_numbers(np.exp(random.normal(6.7, 0.6, 15)))
    claims = [claims[i] for i in random.permutation(len(claims))]
    target("target, claims", claims, [0.0, 800.0, 1e5])
    target("target, claims, one wrong", [*claims, 9e7], [0.0, 800.0, 9e7])
    target("target, claims, two wrong that differ", [*claims, 9e7, 1e6], [0.0, 800.0])
    target("target, claims, two far that agree", [*claims, 9e5, 8e5], [0.0, 800.0])
    target("target, two values, one of them rare", [0.0] * 99 + [500.0], [0.0, 500.0, 250.0])
    target("target, four rows", [0.0, 0.0, 0.0, 1e9], [0.0, 5.0])
    target("target, six rows", [1.0, 2.0, 3.0, 4.0, 5.0, 1e9], [0.0, 5.0])
    target("target, one cell 1e300", [*normal, 1e300], [18.0, 1e6])
    target("target, all but constant", [3.5] * 39 + [10.5], [3.5, 10.5, 7.0, 1e9])
    target("target, constant", [7.0] * 9, [7.0, 14.0, -7.0])
    target("target, a single row", [-0.25], [0.25, -0.25])
    return made


def line(column: Column) -> str:
    """Numbers in 17 digits, which tell any two float64 apart."""

    def text(value: object) -> str:
        if isinstance(value, list):
            return "[" + ", ".join(map(text, value)) + "]"
        if isinstance(value, float):
            assert math.isfinite(value), column["name"]
            return f"{value:.17g}"
        return json.dumps(value)

    return "{" + ",\n  ".join(f"{json.dumps(key)}: {text(value)}" for key, value in column.items()) + "}"


def main() -> None:
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    if np.finfo(Real).nmant < 63:
        sys.exit("numpy's longdouble is no wider than float64 on this machine")
    output.write_text("[\n" + ",\n".join(line(column) for column in columns()) + "\n]\n")


if __name__ == "__main__":
    main()
