"""Which rows of a table are context and which are targets: the same for every method and run."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np

from models.research.evaluate.split import Split
from models.research.evaluate.tables import Table

FIXED_SIZES = (16, 64, 256)
ALL = "all"  # all rows but TARGETS, at most MAX_CONTEXT
TARGETS = 64
FEWEST = 16  # rows that a context and a set of targets need at least
MAX_CONTEXT = 4096
DRAWS = 20
BLOCK_SIZES = (8, 16)


def sizes(rows: int) -> list[str]:
    """The names of the context sizes that fit a table of that many rows."""
    fixed = [str(size) for size in FIXED_SIZES if rows - size >= FEWEST]
    return fixed + ([ALL] if rows - TARGETS >= FEWEST else [])


def context_rows(size: str, rows: int) -> int:
    """Nctx of a size by name."""
    return min(rows - TARGETS, MAX_CONTEXT) if size == ALL else int(size)


def _hide_unseen(
    context: np.ndarray, target: np.ndarray, is_categorical: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers categories by their index among those of the context; others become missing."""
    context, target = context.copy(), target.copy()
    for f in np.flatnonzero(is_categorical):
        known = np.unique(context[:, f][~np.isnan(context[:, f])])
        for part in (context, target):
            seen = np.isin(part[:, f], known)
            part[:, f] = np.where(seen, np.searchsorted(known, part[:, f]), np.nan)
    return context, target


def split(table: Table, size: str, draw: int) -> Split:
    """Draw number `draw` of a table. Contexts of growing size are nested, with the same targets."""
    rows = len(table.y)
    seed = [zlib.crc32(table.name.encode()), draw]
    order = np.random.default_rng(seed).permutation(rows)
    count = context_rows(size, rows)
    context = order[:count]
    target = order[max(count, rows - TARGETS) :]
    context_x, target_x = _hide_unseen(table.x[context], table.x[target], table.is_categorical)
    return Split(
        context_x,
        table.y[context],
        target_x,
        table.y[target],
        table.is_categorical,
        BLOCK_SIZES,
        seed=draw,
    )


def fingerprint(table: Table) -> str:
    """Changes when the table's content does, so that cached scores of other data are not used."""
    content = hashlib.sha256()
    for part in (table.x, table.is_categorical, table.y):
        content.update(np.round(part.astype(np.float64), 9).tobytes())
    return content.hexdigest()[:12]
