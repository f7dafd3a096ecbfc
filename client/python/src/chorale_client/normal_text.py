"""Texts that look equal: one form for all of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def normal_text(text: str) -> str:
    """The one form of all texts that look equal: NFC, single spaces, nothing that is invisible."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")
    visible = (mark for mark in text if mark.isspace() or unicodedata.category(mark) != "Cf")
    return " ".join(unicodedata.normalize("NFC", "".join(visible)).split())


def find_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is `name`, else the first that looks like it; None: there is none."""
    known = list(names)
    if name in known:
        return name
    normal = normal_text(name)
    return next((other for other in known if normal_text(other) == normal), None)
