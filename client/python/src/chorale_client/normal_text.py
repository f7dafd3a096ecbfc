"""Texts that look equal: one form for all of them."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable

_FEW = 256  # characters of which any order is found at once


def normal_text(text: str) -> str:
    """The one form of all texts that look equal: NFC, single spaces, nothing that is invisible."""
    if (
        text.isprintable()
        and "  " not in text
        and (text.isascii() or unicodedata.is_normalized("NFC", text))
    ):
        return text.strip(" ")
    visible = (mark for mark in text if mark.isspace() or unicodedata.category(mark) != "Cf")
    return " ".join(_composed("".join(visible)).split())


def _composed(text: str) -> str:
    """Unicode's NFC.

    Marks of a letter are put into their canonical order first: `unicodedata` finds it by insertion,
    which takes n^2 steps for n marks.
    """
    if len(text) > _FEW and not unicodedata.is_normalized("NFC", text):
        parts = "".join(unicodedata.normalize("NFD", character) for character in text)
        runs = itertools.groupby(parts, lambda part: unicodedata.combining(part) != 0)
        text = "".join(
            "".join(sorted(run, key=unicodedata.combining) if are_marks else run)
            for are_marks, run in runs
        )
    return unicodedata.normalize("NFC", text)


class Names:
    """Names to look others up among."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)
        self._by_normal_text: dict[str, str] | None = None  # made when it is first needed

    def find(self, name: str) -> str | None:
        """The one that is `name`, else the first that looks like it; None: there is none."""
        if name in self._names:
            return name
        if self._by_normal_text is None:
            self._by_normal_text = {}
            for own in self._names:
                self._by_normal_text.setdefault(normal_text(own), own)
        return self._by_normal_text.get(normal_text(name))
