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
GAP, ERRORS = 30, 50

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


def fit_scale(numbers: list[Real], median: Real) -> tuple[Real, bool]:
    """The robust deviation, and whether the column is all but constant."""
    ordered = sorted(numbers)
    scale = (quantile(ordered, 3) - quantile(ordered, 1)) / Real("1.349")
    if scale > 0:
        return scale, False
    nearest = sorted(abs(x - median) for x in numbers)[: 99 * len(numbers) // 100]
    if nearest and max(nearest) > 0:
        return Real("1.2533") * sum(nearest, Real(0)) / len(nearest), False
    return deviation(numbers), True


def squash(x: Real, median: Real, scale: Real, most: Real) -> Real:
    z = min(abs(x - median) / scale, LARGEST)
    if z <= most:
        return x
    return median + np.sign(x - median) * scale * (most + np.log1p(z - most))


def target_limit(numbers: list[Real], median: Real, scale: Real) -> Real | None:
    """The distance to which the target's wrong values are brought, in robust deviations, or None:
    there are none. Of one to so many that are farthest away, the most that are far from the others."""
    far = sorted((min(abs(x - median) / scale, LARGEST) for x in numbers), reverse=True)
    for count in range(max(1, len(numbers) // ERRORS), 0, -1):
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

    median = quantile(sorted(known), 2)
    scale, constant_in_bulk = (None, True) if constant else fit_scale(known, median)

    limit = None
    if kind == "target" and not constant_in_bulk:
        limit = target_limit(known, median, scale)
        column["limit"] = exact(limit)

    def bulk(x: Real) -> Real:
        if kind != "target":
            return x if scale is None else squash(x, median, scale, Real(most))
        if limit is None or abs(x - median) / scale <= limit:
            return x
        return median + np.sign(x - median) * scale * limit

    def value(x: Real) -> Real:
        return (x - mean) / std

    inside = [bulk(x) for x in known]
    if constant:
        mean, std = known[0], abs(known[0]) or Real(1)
    else:
        mean, std = sum(inside, Real(0)) / len(inside), deviation(inside)

    def request_value(cell: float | None) -> Real | None:
        if cell is None:
            return None
        x = Real(cell)
        if kind == "target":
            return value(x)
        if kind == "numeric" and constant_in_bulk:
            x = nearest_of(known, x)
        return value(bulk(x))

    column |= {
        "constant_in_bulk": constant_in_bulk,
        "median": exact(median),
        "scale": exact(scale),
        "mean": exact(mean),
        "std": exact(std),
        "context_values": [exact(None if x is None else value(bulk(Real(x)))) for x in context],
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
    target("target, most zero, one wrong", [*zeros, 1e5], [0.0, 30.0])
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
