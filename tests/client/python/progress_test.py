"""Progress bars: when there are some, and what they say."""

from __future__ import annotations

import io
import sys

import pytest
from chorale_client._progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, option: bool | None) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress(option, 1000, "values") as done:
        done(250)
        done(1000)
    return stream.getvalue()


def test_a_bar_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, io.StringIO(), True)
    assert "1.00k/1.00k" in text
    assert "values" in text


def test_no_bar_where_nobody_watches_or_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), None) == ""
    assert shown(monkeypatch, Terminal(), False) == ""


def test_a_quick_call_shows_nothing_even_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chorale_client._progress._DELAY_SECONDS", 1e9)
    assert shown(monkeypatch, Terminal(), None) == ""
    monkeypatch.setattr("chorale_client._progress._DELAY_SECONDS", 0.0)
    assert "1.00k" in shown(monkeypatch, Terminal(), None)


def test_notebooks_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr("chorale_client._progress._DELAY_SECONDS", 0.0)
    assert "1.00k" in shown(monkeypatch, io.StringIO(), None)


def test_a_function_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int]] = []
    with Progress(lambda done, total: told.append((done, total)), 10, "rows") as done:
        done(4)
        done(10)
    assert told == [(4, 10), (10, 10)]
    assert capsys.readouterr().err == ""
