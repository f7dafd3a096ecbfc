"""Runs the code of a page of docs, as one program, and holds the page to what it prints.

The pages are docs/python.md and docs/sessions.md.

Usage, with a server's address in the environment variable CHORALE_SERVER:

    worked_example.py FOLDER           makes the pictures again: NAME.png as FOLDER/python_NAME.png
    worked_example.py FOLDER --update  writes the numbers that the code gives into the page, too
    worked_example.py FOLDER --update --study
                                       the table of 100 random choices as well: ten minutes

After a change of the model, or of how samples are drawn, --update makes the page right again; its
sentences are read by a person then, since a word such as "several" is not held to anything.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import os
import pathlib
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chorale_client
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/python.md"
SESSIONS = ROOT / "docs/sessions.md"
CHOICES = 100
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COUNTS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_WORD = "(" + "|".join(_COUNTS) + r"|\d+)"


@dataclass(frozen=True)
class Example:
    """What a run of the code has given.

    Attributes:
        names: The variables at its end.
        printed: [blocks]: what each block of code has printed.
    """

    names: dict[str, Any]
    printed: list[str]


Value = Callable[[dict[str, Any]], tuple[str, ...]]


def ratio(samples: chorale_client.Samples) -> float:
    """How much farther the sum spreads than that of independent rows."""
    return float(samples.sum().std() / samples.independent().sum().std())


def _likeliest(names: dict[str, Any]) -> tuple[str, str]:
    return f"{names['chances'].max():.0%}".rstrip("%"), str(names["chances"].idxmax())


def _gentoos(names: dict[str, Any]) -> tuple[str]:
    count = int((names["measured"]["species"] == "Gentoo").sum())
    return (_COUNTS[count] if count < len(_COUNTS) else str(count),)


def _few(names: dict[str, Any]) -> tuple[str]:
    return (str(len(names["weighed"])),)


def _rows(names: dict[str, Any]) -> tuple[str]:
    return (str(len(names["measured"])),)


def _all(names: dict[str, Any]) -> tuple[str]:
    return (str(len(names["penguins"]) + len(names["measured"])),)


def _spread(names: dict[str, Any]) -> tuple[str]:
    return (f"{ratio(names['samples']):.1f}",)


def _paths_drawn(names: dict[str, Any]) -> tuple[str, str]:
    shown = inspect.signature(names["samples"].plot).parameters["paths"].default
    return str(len(names["measured"])), str(shown)


# The numbers in sentences: a pattern that the page has once, with a group for each number.
SENTENCES: list[tuple[str, Value]] = [
    (r"Say that (\d+) penguins of the", _few),
    (r"have been weighed, and (\d+) others only measured", _rows),
    (r"What is known of these (\d+) \*together\*", _rows),
    (r"The masses of (\d+) penguins: medians, [^,]* 50 % and 90 %, and (\d+) paths", _paths_drawn),
    (r"A sledge carries 105 kg: does it carry these (\d+)\?", _rows),
    (r"!\[The sum of (\d+) masses, joint", _rows),
    (r"the joint one spreads (\d\.\d) times as far", _spread),
    (r"After (\d+) penguins it is", _few),
    (rf"for all {_WORD} Gentoos at once", _gentoos),
    (r"On (\d+) % of the paths it is (\w+)", _likeliest),
    (r"With (\d+) weighed penguins the level", lambda names: (str(len(names["penguins"])),)),
    (r"!\[How many of (\d+) known masses lie", _rows),
    (r"of weighed penguins out of all (\d+)", _all),
    (r"interval of the sum of (\d+) others", _rows),
]  # fmt: skip
# What says how often the interval of each kind of sum held, by how many were weighed.
_STUDY = (
    r"In (\d+) random choices",
    r"\| weighed \| (\d+) \| (\d+) \| (\d+) \|",
    r"\| joint samples \| (\d+) \| (\d+) \| (\d+) \|",
    r"\| as if independent \| (\d+) \| (\d+) \| (\d+) \|",
)
WEIGHED = (8, 20, 60)


def code(page: pathlib.Path) -> list[str]:
    """The page's blocks of Python."""
    return _CODE.findall(page.read_text())


def run(folder: pathlib.Path, page: pathlib.Path = PAGE) -> Example:
    """Runs the code in a folder."""
    names: dict[str, Any] = {"__name__": f"docs_{page.stem}"}
    printed = []
    if not (folder / "datasets").exists():
        (folder / "datasets").symlink_to(ROOT / "datasets")
    before = pathlib.Path.cwd()
    os.chdir(folder)
    try:
        for number, block in enumerate(code(page)):
            with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
                exec(compile(block, f"{page.name}, block {number + 1}", "exec"), names)
            printed.append(out.getvalue())
    finally:
        os.chdir(before)
    return Example(names, printed)


def page_of(example: Example, file: pathlib.Path = PAGE) -> str:
    """The page with the outputs and the numbers of a run; ValueError if it has no place for one."""
    page = file.read_text()
    # From the last block to the first, as replacing moves what comes after.
    blocks = list(_CODE.finditer(page))
    ends = [*(block.start() for block in blocks[1:]), len(page)]
    for block, end, printed in reversed(list(zip(blocks, ends, example.printed, strict=True))):
        output = _OUTPUT.search(page, block.end(), end)
        if (output is None) != (not printed):
            raise ValueError(f"output without its place, or place without output: {block[1]!r}")
        if output is not None:
            page = page[: output.start(1)] + printed + page[output.end(1) :]
    for pattern, value in SENTENCES if file == PAGE else []:
        page = _filled(page, pattern, value(example.names))
    return page


def numbers_left(page: str) -> list[str]:
    """The numbers in the worked example's sentences that nothing holds to what the code gives."""
    text = page[: page.index("\n## Tables")]
    text = text[text.index("\n## Decisions") :]
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)  # addresses; names
    text = re.sub("|".join([*(pattern for pattern, _ in SENTENCES), *_STUDY]), "", text)
    # The levels that plots draw, which their legends say.
    text = re.sub(r"the 90 %", "", text)
    return re.findall(r"\d[\d.,]*", text)


def study() -> list[tuple[str, ...]]:
    """How often the 90 % interval of the sum of 24 penguins holds the true one: rows of the table.

    Each choice draws which penguins are weighed, and which others are asked about.
    """
    both = [pd.read_csv(ROOT / f"datasets/{name}.csv") for name in ("penguins", "penguins_heldout")]
    penguins = pd.concat(both, ignore_index=True)
    client = chorale_client.connect()
    held = np.zeros((2, len(WEIGHED)), dtype=int)
    for choice in range(CHOICES):
        shuffled = penguins.sample(frac=1, random_state=choice)
        others = shuffled[: len(both[1])]
        for i, count in enumerate(WEIGHED):
            weighed = shuffled[len(others) : len(others) + count]
            context = client.register(weighed, target="body_mass_g")
            samples = context.sample(others, paths=1000, seed=choice + 1, progress=False)
            for kind, drawn in enumerate((samples, samples.independent(seed=choice))):
                low, high = np.quantile(drawn.sum(), [0.05, 0.95])
                held[kind, i] += low <= others["body_mass_g"].sum() <= high
            context.delete()
    return [tuple(map(str, row)) for row in ((CHOICES,), WEIGHED, *held)]


def _filled(page: str, pattern: str, values: tuple[str, ...]) -> str:
    """The page with the groups of a pattern, which it has once, replaced."""
    found = list(re.finditer(pattern, page))
    if len(found) != 1:
        raise ValueError(f"the page has {len(found)} places like {pattern!r}, must have one")
    spans = found[0].regs[1:]
    for (start, end), value in reversed(list(zip(spans, values, strict=True))):
        page = page[:start] + value + page[end:]
    return page


def main() -> None:
    """Keeps each picture NAME.png as FOLDER/python_NAME.png, and the numbers if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="for the pictures: docs/images")
    parser.add_argument("--update", action="store_true", help="write the numbers into the page")
    parser.add_argument("--study", action="store_true", help="and those of the random choices")
    arguments = parser.parse_args()
    out = arguments.folder.resolve()
    plt.rcParams["savefig.dpi"] = 110
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        example = run(folder)
        sessions = run(folder, SESSIONS)
        for picture in folder.glob("*.png"):
            (out / f"python_{picture.name}").write_bytes(picture.read_bytes())
    if arguments.update:
        page = page_of(example)
        if arguments.study:
            for pattern, values in zip(_STUDY, study(), strict=True):
                page = _filled(page, pattern, values)
        PAGE.write_text(page)
        SESSIONS.write_text(page_of(sessions, SESSIONS))


if __name__ == "__main__":
    main()
