"""Normalisation of text, so that strings that look equal are equal."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable

_FEW = 256  # characters for which any normalisation is fast


def normal_text(text: str) -> str:
    """Returns the normal form of a text: NFC, single spaces, no invisible characters."""
    if (
        text.isprintable()
        and "  " not in text
        and (text.isascii() or unicodedata.is_normalized("NFC", text))
    ):
        return text.strip(" ")
    visible = (mark for mark in text if mark.isspace() or unicodedata.category(mark) != "Cf")
    return " ".join(_composed("".join(visible)).split())


def _composed(text: str) -> str:
    """Returns the Unicode normal form NFC.

    Sorts the combining marks of a character first: `unicodedata` sorts by insertion, in n^2 steps
    for n marks.
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
    """Names, for lookups by their normal form."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)
        self._by_normal_text: dict[str, str] | None = None  # created on first use

    def find(self, name: str) -> str | None:
        """Returns `name` if it exists, or the first name with the same normal form, or None."""
        if name in self._names:
            return name
        if self._by_normal_text is None:
            self._by_normal_text = {}
            for own in self._names:
                self._by_normal_text.setdefault(normal_text(own), own)
        return self._by_normal_text.get(normal_text(name))
