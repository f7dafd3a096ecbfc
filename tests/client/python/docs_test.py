"""The code of docs/python.md runs, and what the page says of its numbers holds."""

from __future__ import annotations

import pathlib
import re

import chorale_client
import matplotlib.pyplot as plt
import pytest
from own_server import ROOT
from worked_example import PAGE, run


def test_the_page(server: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_SERVER", server)
    names = run(tmp_path)
    plt.close("all")
    made = {picture.stem for picture in tmp_path.glob("*.png")}
    shown = set(re.findall(r"\(images/python_(\w+)\.png\)", PAGE.read_text()))
    assert shown == made
    assert all((ROOT / f"docs/images/python_{name}.png").exists() for name in shown)
    few, many = names["samples"], names["certain"]
    assert ratio(few) > 1.2
    assert ratio(many) < 1.2


def ratio(samples: chorale_client.Samples) -> float:
    """How much farther the sum spreads than that of independent rows."""
    return float(samples.sum().std() / samples.independent().sum().std())
