"""Which calendar features of a column of dates help a model: the tables of calendar.md.

    python3 -m models.research.evaluate.calendar_features daily CHORALE HOST:PORT [REPEATS]
    python3 -m models.research.evaluate.calendar_features irregular CHORALE HOST:PORT [REPEATS]

CHORALE is the command line, HOST:PORT a server that adds no calendar features itself, or whose
features are to be compared with those here.
"""

from __future__ import annotations

import csv
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

HORIZON = 14  # days of a sum of sales
LATER = 60  # rows at irregular times
JOBS = 8
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

Columns = dict[str, list]
Moment = datetime.datetime


def parts(moments: list[Moment]) -> Columns:
    """All features that the forms below choose from."""
    year = 2 * np.pi * np.array([m.timetuple().tm_yday for m in moments]) / 365.25
    return {
        "index": list(range(len(moments))),
        "weekday": [m.weekday() for m in moments],
        "weekday name": [WEEKDAYS[m.weekday()] for m in moments],
        "hour": [m.hour + m.minute / 60 for m in moments],
        "day": [m.day for m in moments],
        "day name": [f"d{m.day}" for m in moments],
        "month": [m.month for m in moments],
        "sine": list(np.sin(year)),
        "cosine": list(np.cos(year)),
    }


# Beside the date, or without it ("hand").
DAILY_FORMS = {
    "date": (),
    "hand": ("index", "weekday name", "month", "day", "sine", "cosine"),
    "day": ("day",),
    "day as category": ("day name",),
    "month": ("month",),
    "day, month": ("day", "month"),
    "weekday": ("weekday",),
}
IRREGULAR_FORMS = {
    "date": (),
    "weekday": ("weekday",),
    "weekday as category": ("weekday name",),
    "day": ("day",),
    "month": ("month",),
    "hour": ("hour",),
    "all": ("weekday", "hour", "day", "month"),
}
DAILY_KINDS = ("weekly", "yearly", "trend", "yearly trend", "yearly monthend")
DAILY_SIZES = ((60,), (180,), (730,))
IRREGULAR_KINDS = ("none", "weekday", "month", "monthend", "none time", "weekday hour time",
                   "hour month time")  # fmt: skip
IRREGULAR_SIZES = ((30, 200), (180, 300), (730, 600))  # days, rows


def daily(kind: str, size: tuple[int, ...], random: np.random.Generator) -> tuple:
    """Moments, other columns, target: sales of `size` days and the HORIZON days after them."""
    n = size[0] + HORIZON
    first = datetime.datetime(2022, 1, 3) + datetime.timedelta(days=int(random.integers(0, 365)))
    moments = [first + datetime.timedelta(days=i) for i in range(n)]
    part = parts(moments)
    y = random.normal(0, 0.3) + random.normal(0, 0.25, 7)[part["weekday"]]
    if "yearly" in kind:
        shift = 2 * np.pi * random.uniform()
        y = y + 0.3 * (np.array(part["sine"]) * np.cos(shift)
                       + np.array(part["cosine"]) * np.sin(shift))  # fmt: skip
    if "trend" in kind:
        y = y + random.normal(0, 0.4) * np.arange(n) / size[0]
    if "monthend" in kind:
        y = y + 0.5 * (np.array(part["day"]) >= 28)
    error = np.zeros(n)
    for i in range(1, n):
        error[i] = 0.4 * error[i - 1] + random.normal(0, 0.08)
    return moments, {}, 100 * np.exp(y + error), size[0]


def irregular(kind: str, size: tuple[int, ...], random: np.random.Generator) -> tuple:
    """The same for a table: rows at random times, then LATER rows after them."""
    days, rows = size
    after = days + random.uniform(0, max(14, days / 10), LATER)
    times = np.concatenate([np.sort(random.uniform(0, days, rows)), np.sort(after)])
    first = datetime.datetime(2022, 1, 1) + datetime.timedelta(days=int(random.integers(0, 365)))
    moments = [first + datetime.timedelta(days=float(t)) for t in times]
    if "time" not in kind:
        moments = [m.replace(hour=0, minute=0, second=0, microsecond=0) for m in moments]
    part, n = parts(moments), rows + LATER
    number, group = random.normal(size=n), random.integers(0, 4, n)
    y = number + random.normal(0, 0.7, 4)[group] + random.normal(0, 0.5, n)
    if "weekday" in kind:
        y = y + 1.5 * (np.array(part["weekday"]) >= 5)
    if "hour" in kind:
        y = y + 1.5 * np.sin(2 * np.pi * (np.array(part["hour"]) / 24 - random.uniform()))
    if "month" in kind.split():
        y = y + 1.5 * np.sin(2 * np.pi * (np.array(part["month"]) / 12 - random.uniform()))
    if "monthend" in kind:
        y = y + 1.5 * (np.array(part["day"]) >= 28)
    return moments, {"number": list(number), "group": [f"g{g}" for g in group]}, y, rows


def columns_of(form: str, names: tuple[str, ...], moments: list[Moment], others: Columns) -> Columns:
    part = parts(moments)
    has_times = any(m.time() != datetime.time() for m in moments)
    text = [m.isoformat(timespec="seconds") if has_times else m.date().isoformat() for m in moments]
    date = {} if form == "hand" else {"date": text}
    return {**date, **others, **{name: part[name] for name in names}}


def crps(samples: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[n] for samples [paths, n]."""
    paths = len(samples)
    rank = 2 * np.arange(1, paths + 1) - paths - 1
    spread = (rank[:, None] * np.sort(samples, axis=0)).sum(axis=0) / paths**2
    return np.abs(samples - y).mean(axis=0) - spread


def draw(command: list[str], name: str, columns: Columns, y: np.ndarray, known: int) -> np.ndarray:
    """[paths, rows] of the rows from `known` on, conditional on those before."""

    def run(*arguments: str) -> str:
        return subprocess.run([*command, *arguments], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        context, rows = pathlib.Path(folder, "context.csv"), pathlib.Path(folder, "rows.csv")
        for path, part in ((context, slice(0, known)), (rows, slice(known, None))):
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow([*columns, "y"])
                cells = [*(values[part] for values in columns.values()), map(float, y[part])]
                writer.writerows(zip(*cells, strict=True))
        run("register", str(context), "--target=y", f"--name={name}", "--replace")
        answer = run("sample", name, str(rows), "--paths=300", "--seed=1", "--format=json")
    run("rm", name)
    return np.array(json.loads(answer)["values"])


def main(what: str, chorale: str, server: str, repeats: str = "16") -> None:
    make: Callable = {"daily": daily, "irregular": irregular}[what]
    forms, kinds, sizes = (
        (DAILY_FORMS, DAILY_KINDS, DAILY_SIZES)
        if what == "daily"
        else (IRREGULAR_FORMS, IRREGULAR_KINDS, IRREGULAR_SIZES)
    )
    command = [chorale, "--server", server]

    def score(job: tuple) -> list[float]:
        kind, size, repeat = job
        random = np.random.default_rng([zlib.crc32(kind.encode()), *size, repeat])
        moments, others, y, known = make(kind, size, random)
        scores = []
        for i, (form, names) in enumerate(forms.items()):
            columns = columns_of(form, names, moments, others)
            name = f"{what}-{kind.replace(' ', '-')}-{'-'.join(map(str, size))}-{repeat}-{i}"
            samples = draw(command, name, columns, y, known)
            if what == "daily":  # in percent of the sum
                total = y[known:].sum()
                scores.append(100 * crps(samples.sum(axis=1)[:, None], total)[0] / total)
            else:
                scores.append(crps(samples, y[known:]).mean())
        return scores

    with ThreadPoolExecutor(JOBS) as pool:
        for kind in kinds:
            for size in sizes:
                jobs = [(kind, size, repeat) for repeat in range(int(repeats))]
                scores = np.array(list(pool.map(score, jobs)))
                gain = scores[:, :1] - scores
                if what == "irregular":
                    gain = 100 * gain / scores[:, 0].mean()
                error = gain.std(axis=0) / np.sqrt(len(gain))
                cells = [f"{name} {g:+.2f} ± {e:.2f}"
                         for name, g, e in zip(forms, gain.mean(axis=0), error, strict=True)]  # fmt: skip
                print(kind, *size, f"date {scores[:, 0].mean():.3f}:", ", ".join(cells[1:]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
