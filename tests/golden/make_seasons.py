#!/usr/bin/env python3
"""Makes tests/golden/seasons.json: contexts with the season that each has, by which the server and the
training code hold each other to one way of finding it and of telling the phase.

Usage: make_seasons.py [FILE]

The seasons are those of models/research/training/prior/phase_column.py. README.md in this folder says what
the file holds.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from models.research.training.prior.phase_column import find_season  # noqa: E402

OUTPUT = pathlib.Path(__file__).with_name("seasons.json")

Array = np.ndarray
Column = tuple[str, Array]  # its kind, and its cells
Context = tuple[list[Column], Array]


def numeric(cells: Array) -> Column:
    return "number", np.asarray(cells, dtype=np.float64)


def categorical(cells: Array) -> Column:
    return "category", np.asarray(cells, dtype=np.float64)


def dates(months: Array, day: int) -> Column:
    """Days since 1970-01-01 of a day of each month; 0 is the last of the month before."""
    month = np.datetime64("2015-01") + np.asarray(months).astype(int)
    return "date", month.astype("datetime64[D]").astype(np.float64) + (day - 1)


def noise(rows: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(rows)


def wave(t: Array, period: float, seed: int, scale: float = 0.3) -> Array:
    """Two harmonics, a trend and noise."""
    angle = 2 * np.pi * t / period
    y = np.sin(angle + 1) + 0.5 * np.cos(2 * angle) + 0.02 * t + scale * noise(len(t), seed)
    return np.round(y, 3)


def counted(rows: int, period: float, seed: int) -> Context:
    t = np.arange(rows, dtype=np.float64)
    return [numeric(t)], wave(t, period, seed)


def with_gaps(rows: int, every: int, gap: float, period: float, seed: int) -> Context:
    gaps = np.where(np.arange(1, rows) % every == 0, gap, 1.0)
    t = np.concatenate([[0.0], gaps.cumsum()])
    return [numeric(t)], wave(t, period, seed)


def sine(rows: int, seed: int) -> Context:
    """A plain yearly wave of amplitude 10 beside noise of 1."""
    t = np.arange(rows, dtype=np.float64)
    y = 50 + 10 * np.sin(2 * np.pi * (t + 2 * seed) / 12) + noise(rows, seed)
    return [numeric(t)], np.round(y, 3)


def weekdays(rows: int, gone: Array, seed: int) -> Context:
    """A week's pattern on some of the days."""
    day = np.arange(rows, dtype=np.float64)
    y = np.array([0, 5, -3, 8, -10, 4, 1])[day.astype(int) % 7] + noise(rows, seed)
    return [numeric(day[~gone])], np.round(y, 3)[~gone]


def panel(stores: int, rows: int, period: float, seed: int, *, late: int = 0) -> tuple[Array, Array, Array]:
    """Store, time and target; each store has its level, its scale and its phase, and begins `late` after the last."""
    store = np.repeat(np.arange(stores, dtype=np.float64), rows)
    t = np.tile(np.arange(rows, dtype=np.float64), stores) + late * store
    random = np.random.default_rng(seed)
    level, scale, phase = (random.uniform(size=stores)[store.astype(int)] for _ in range(3))
    y = 100 * level + (5 + 20 * scale) * np.sin(2 * np.pi * (t / period + phase)) + noise(len(t), seed)
    return store, t, np.round(y, 3)


def months(t: Array) -> Array:
    """Days from 2015-01-01 to the first of the month t months later."""
    first = np.datetime64("2015-01")
    return ((first + t.astype(int)).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.float64)


def twice(context: Context, rows: list[int], seed: int) -> Context:
    """These rows once more, with another y, and all in any order."""
    columns, y = context
    places = np.concatenate([np.arange(len(y)), rows])
    order = np.random.default_rng(seed).permutation(len(places))
    again = np.concatenate([y, np.round(y[rows] + noise(len(rows), seed), 3)])
    return [(kind, cells[places][order]) for kind, cells in columns], again[order]


def curve(y: Array) -> Context:
    return [numeric(np.arange(float(len(y))))], y


def beside(columns: list[Column], rows: int, period: float, seed: int) -> Context:
    index, y = counted(rows, period, seed)
    return index + columns, y


def contexts() -> dict[str, Context]:
    cases = {
        f"{rows} rows, period {period}": counted(rows, period, seed)
        for seed, (rows, period) in enumerate(
            [(32, 6), (40, 6), (64, 12), (64, 5.4), (128, 24), (200, 7), (256, 30.44)]
        )
    }
    cases["more rows than the window"] = counted(1100, 12, 20)
    cases["fifteen rows"] = counted(15, 5, 21)
    t64, t96 = np.arange(64.0), np.arange(96.0)
    cases["noise"] = [numeric(t64)], np.round(noise(64, 22), 3)
    cases["random walk"] = [numeric(t96)], np.round(noise(96, 23).cumsum(), 3)
    cases["constant target"] = [numeric(t64)], np.full(64, 3.0)
    week = 3.0 * (np.arange(140) % 7 == 5)
    cases["one day of the week"] = [numeric(np.arange(140.0))], np.round(week + noise(140, 24), 3)
    turns = np.arange(140) / 14
    waves = 3 * np.sin(4 * np.pi * turns) + 2 * np.sin(8 * np.pi * turns) + np.sin(2 * np.pi * turns)
    cases["every second wave is another"] = (
        [numeric(np.arange(140.0))],
        np.round(waves + 0.3 * noise(140, 25), 3),
    )

    order = np.random.default_rng(26).permutation(96)
    cases["rows in any order, in years"] = [numeric((1990 + t96 / 12)[order])], wave(t96, 8, 27)[order]
    cases["large numbers"] = [numeric(86_400 * t96)], 1e250 * wave(t96, 8, 28)
    cases["a gap in twenty rows"] = with_gaps(120, 20, 3.0, 9, 29)
    cases["a gap in eight rows"] = with_gaps(120, 8, 3.0, 9, 30)
    cases["gaps too long"] = with_gaps(120, 20, 90.0, 9, 31)
    cases["uneven"] = [numeric(np.round(t96 + 0.6 * noise(96, 32), 2))], wave(t96, 8, 32)

    missing = t96.copy()
    missing[5] = np.nan
    cases["index with a missing cell"] = [numeric(missing)], wave(t96, 8, 33)
    cases["the next column is the index"] = [numeric(missing), numeric(1000 - 2 * t96)], wave(t96, 8, 33)

    month = np.arange(96) % 12
    unrelated = np.round(1e4 * noise(96, 34), 1)
    unrelated[::9] = np.nan
    groups = np.random.default_rng(35).integers(0, 4, 96).astype(np.float64)
    groups[::10] = np.nan
    cases["told by a category"] = beside([categorical(month)], 96, 12, 36)
    cases["told by a number"] = beside([numeric(month)], 96, 12, 36)
    cases["its first wave told"] = beside(
        [numeric(np.sin(2 * np.pi * t96 / 12)), numeric(np.cos(2 * np.pi * t96 / 12))], 96, 12, 36
    )
    cases["beside other columns"] = beside([numeric(unrelated), categorical(groups)], 96, 12, 37)
    cases["beside constant and missing ones"] = beside(
        [numeric(np.full(96, 2.0)), numeric(np.full(96, np.nan))], 96, 12, 38
    )
    for rows in (36, 48, 60, 72):
        cases[f"a sine over {rows} months"] = sine(rows, rows)
    t250 = np.arange(250)
    cases["business days"] = weekdays(250, t250 % 7 > 4, 50)
    cases["four days in ten are missing"] = weekdays(250, np.random.default_rng(51).uniform(size=250) < 0.4, 52)
    cases["half of the days are missing"] = weekdays(250, np.random.default_rng(53).uniform(size=250) < 0.52, 54)
    cases["three days in four are missing"] = weekdays(250, np.random.default_rng(55).uniform(size=250) < 0.75, 54)
    store, t, y = panel(3, 60, 12, 55)
    cases["three stores"] = [categorical(store), numeric(months(t))], y
    cases["three stores by number"] = [numeric(t), numeric(10 + store)], y
    shuffled = np.random.default_rng(56).permutation(len(t))
    cases["three stores in any order"] = [categorical(store[shuffled]), numeric(t[shuffled])], y[shuffled]
    cases["three stores that nothing tells"] = [numeric(t)], y
    store, t, y = panel(2, 40, 7, 57, late=15)
    cases["two stores, one late"] = [numeric(t), categorical(store)], y
    store, t, y = panel(12, 48, 12, 58)
    cases["four stores with three articles"] = [categorical(store // 3), numeric(t), categorical(store % 3)], y
    store, t, y = panel(50, 24, 6, 59)
    cases["fifty stores"] = [categorical(store % 26), numeric(store // 26), numeric(t)], y
    store, t, y = panel(3, 60, 12, 60)
    cases["three stores of noise"] = [categorical(store), numeric(t)], np.round(noise(180, 61), 3)
    cases["three stores with the month"] = (
        [categorical(store), numeric(t), categorical(t % 12)],
        y,
    )
    number = np.random.default_rng(62).permutation(180).astype(np.float64)
    cases["three stores beside a row number"] = [numeric(number), categorical(store), numeric(t)], y
    cases["a row twice"] = twice(sine(48, 63), [20], 63)
    cases["two rows twice beside other columns"] = twice(
        beside([numeric(np.where(np.isnan(unrelated), 0, unrelated)), categorical(groups)], 96, 12, 64), [7, 8], 64
    )
    cases["a row thrice, with a missing cell"] = twice(beside([numeric(unrelated)], 96, 12, 65), [9, 9], 65)
    hour = np.concatenate([np.arange(72.0), [71.0], np.arange(72.0, 160)])
    cases["an hour comes twice"] = [numeric(hour)], wave(np.arange(161.0), 24, 66)
    cases["too many rows twice"] = twice(sine(48, 67), [3, 9, 20], 67)
    store, t, y = panel(3, 40, 12, 68)
    cases["three stores, rows twice"] = twice(([categorical(store), numeric(t)], y), [5, 50, 51], 68)
    flag = categorical((np.arange(49) == 48).astype(float))  # tells the row apart that is there twice
    columns, y = twice(sine(48, 69), [20], 69)
    cases["a row twice that a flag tells"] = [*columns, flag], y

    for day, rows, seed in ((1, 60, 70), (15, 48, 71), (28, 72, 72), (0, 60, 73)):
        columns, y = sine(rows, seed)
        cases[f"months, day {day}"] = [dates(columns[0][1], day)], np.round(y + 0.5 * columns[0][1], 3)
    t60 = np.arange(60.0)
    cases["quarters"] = [dates(3 * t60, 1)], np.round(3 * np.sin(np.pi * t60 / 2 + 1) + 0.5 * t60 + noise(60, 74), 3)
    cases["months of which some are left out"] = (
        [dates(np.delete(np.arange(72), [5, 6, 40]), 0)],
        np.delete(sine(72, 75)[1], [5, 6, 40]),
    )
    store, t, y = panel(3, 60, 12, 76)
    cases["three stores by date"] = [categorical(store), dates(t, 1)], np.round(y + 0.5 * t, 3)
    cases["a month twice"] = twice(([dates(t60, 1)], sine(60, 77)[1]), [30], 77)
    days = dates(t60, 15)[1] + (np.arange(60) == 30)
    cases["months, one a day late"] = [("date", days)], np.round(sine(60, 78)[1] + 0.5 * t60, 3)

    u = np.arange(100) / 100
    cases["exponential"] = curve(np.exp(0.1 * np.arange(250)))
    cases["decay"] = curve(np.exp(-5 * u))
    cases["logistic"] = curve(1 / (1 + np.exp(-10 * (u - 0.5))))
    cases["logistic in 36 rows"] = curve(1 / (1 + np.exp(-10 * (np.arange(36) / 36 - 0.5))))
    cases["logistic, whole numbers"] = curve(np.rint(1000 / (1 + np.exp(-10 * (u - 0.5)))))
    cases["ninth power"] = curve(u**9)
    cases["inverse"] = curve(1 / (np.arange(100) + 10))
    cases["square root"] = curve(np.sqrt(np.arange(250)))
    cases["logarithm"] = curve(np.log(np.arange(100) + 10))
    cases["bell"] = curve(np.exp(-(((u - 0.5) / 0.15) ** 2)))
    year = np.sin(2 * np.pi * np.arange(100) / 12 + 0.4)
    cases["sine and trend without noise"] = curve(10 * year + 0.5 * np.arange(100))
    cases["sine with four decimals"] = curve(np.round(year, 4))
    cases["sine with six decimals and a square"] = curve(np.round(10 * year + 0.01 * np.arange(100) ** 2, 6))
    shape = np.round(noise(12, 79), 2)
    cases["pattern without noise"] = curve(shape[np.arange(100) % 12] + 0.1 * np.arange(100))
    both = np.concatenate([np.log(np.arange(60) + 10), sine(60, 80)[1]])
    cases["a curve and a season"] = [categorical(np.repeat([0, 1], 60)), numeric(np.tile(np.arange(60), 2))], both
    typing = sine(60, 81)
    typing[1][23] *= 10
    cases["a typing error"] = typing
    closed = sine(96, 82)
    closed[1][40:43] -= 30
    cases["three months of closed shops"] = closed
    columns, y = beside([numeric(unrelated), categorical(groups)], 96, 12, 83)
    y[50] += 30
    cases["a typing error beside other columns"] = columns, y
    columns, y = beside([categorical(month)], 96, 12, 84)
    y[50] += 30
    cases["a typing error where a category tells"] = columns, y
    store, t, y = panel(3, 60, 12, 85)
    y[[20, 100]] = 5000
    cases["two typing errors in three stores"] = [categorical(store), numeric(t)], y
    many = [numeric(np.round(noise(128, 40 + seed), 2)) for seed in range(47)]
    cases["too many columns"] = beside(many, 128, 12, 39)
    return cases


def exact(x: float) -> float | None:
    return None if math.isnan(x) else float(x)


def case(name: str, context: Context) -> dict[str, object]:
    columns, y = context
    x = np.stack([cells for _, cells in columns], axis=1)
    kinds = np.array([kind for kind, _ in columns])
    season = find_season(x, y, kinds == "category", is_date=kinds == "date")
    found: dict[str, object] = {
        "name": name,
        "columns": [
            {"categorical": kind == "category", "cells": [exact(cell) for cell in cells]}
            | ({"date": True} if kind == "date" else {})
            for kind, cells in columns
        ],
        "y": y.tolist(),
        "season": None,
    }
    if season is None:
        return found
    first, step = season.index.first, season.index.step
    asked = np.full((8, x.shape[1]), np.nan)
    begin, unit = (first, step) if season.index.months is None else (x[:, season.index.column].min(), 1.0)
    asked[:7, season.index.column] = begin + unit * np.array([-30, -1, 0, 2.5, 100, 12_345, 1e6])
    phases, request = season.phase(x), season.phase(asked)
    mean, deviation = phases.mean(), phases.std()
    found["season"] = {"column": season.index.column, "first": first, "step": step, "period": season.period}
    found["request"] = [exact(cell) for cell in asked[:, season.index.column]]
    found["request_phases"] = [exact(phase) for phase in request]
    found["request_values"] = [exact((phase - mean) / deviation) for phase in request]
    return found


def main() -> None:
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    lines = [json.dumps(case(name, context)) for name, context in contexts().items()]
    output.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
