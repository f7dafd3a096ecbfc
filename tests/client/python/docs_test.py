"""The code of docs/python.md and of docs/sessions.md runs, and the pages have what it prints."""

from __future__ import annotations

import pathlib
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from own_server import ROOT
from worked_example import PAGE, SESSIONS, numbers_left, page_of, ratio, run


def test_the_page(server: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_SERVER", server)
    example = run(tmp_path)
    plt.close("all")
    made = {picture.stem for picture in tmp_path.glob("*.png")}
    shown = set(re.findall(r"\(images/python_(\w+)\.png\)", PAGE.read_text()))
    assert shown == made
    assert all((ROOT / f"docs/images/python_{name}.png").exists() for name in shown)
    assert PAGE.read_text().splitlines() == page_of(example).splitlines(), (
        "worked_example.py docs/images --update writes the numbers into the page"
    )
    # What the sentences rest on.
    few, many = example.names["samples"], example.names["certain"]
    assert ratio(few) > 1.2
    assert ratio(many) < 1.2
    overloaded = [(drawn.sum() > 105_000).mean() for drawn in (few, few.independent())]
    assert overloaded[0] > 2 * overloaded[1], "several times as likely"


def test_the_page_of_sessions(
    server: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHORALE_SERVER", server)
    example = run(tmp_path, SESSIONS)
    assert SESSIONS.read_text().splitlines() == page_of(example, SESSIONS).splitlines()
    # What the sentences rest on.
    names = example.names
    assert names["after"].sum().std() < names["before"].sum().std()
    first = names["first"].to_numpy()
    for branch in (names["usual"], names["other"]):
        np.testing.assert_array_equal(branch.values[:, : first.shape[1]], first)
    np.testing.assert_array_equal(names["undone"].values, names["once"].values)


def test_every_number_of_the_page_is_held() -> None:
    page = PAGE.read_text()
    assert numbers_left(page) == []
    more = page.replace("## Tables", "It is 17.5 % more.\n\n## Tables", 1)
    assert numbers_left(more) == ["17.5"]


def test_the_numbers_of_the_readme() -> None:
    rows = len(pd.read_csv(ROOT / "datasets/penguins_heldout.csv"))
    assert f"![The masses of {rows} penguins:" in (ROOT / "README.md").read_text()
