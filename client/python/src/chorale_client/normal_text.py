"""Texts that look equal: one form for all of them."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable

_FEW = 256  # characters of which any order is found at once


def normal_text(text: str) -> str:
    """The one form of all texts that look equal: NFC, single spaces, nothing that is invisible."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")
    visible = (mark for mark in text if mark.isspace() or unicodedata.category(mark) != "Cf")
    return " ".join(_composed("".join(visible)).split())


def _composed(text: str) -> str:
    """Unicode's NFC.

    Marks of a letter are put into their canonical order first: `unicodedata` finds it by insertion,
    which takes n^2 steps for n marks.
    """
    if len(text) > _FEW:
        parts = "".join(unicodedata.normalize("NFD", character) for character in text)
        runs = itertools.groupby(parts, lambda part: unicodedata.combining(part) != 0)
        text = "".join(
            "".join(sorted(run, key=unicodedata.combining) if are_marks else run)
            for are_marks, run in runs
        )
    return unicodedata.normalize("NFC", text)


def find_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is `name`, else the first that looks like it; None: there is none."""
    known = list(names)
    if name in known:
        return name
    normal = normal_text(name)
    return next((other for other in known if normal_text(other) == normal), None)
