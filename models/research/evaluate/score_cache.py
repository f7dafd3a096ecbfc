"""Scores of baselines on disk: they do not depend on the model, so they are computed once."""

from __future__ import annotations

import json
import os
import pathlib

from models.research.evaluate.cells import Cell

Columns = dict[str, list[float]]  # score by name -> one value for each draw


class ScoreCache:
    """A JSON file of scores by cell and method. Not for several processes at once."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._entries = json.loads(path.read_text()) if path.exists() else {}

    def get(self, cell: Cell, method: str, revision: int, draws: int) -> Columns | None:
        """The first `draws` draws; None when they are not all there, or of other data or methods."""
        entry = self._entries.get(f"{cell}/{method}")
        if entry is None or entry["fingerprint"] != f"{cell.fingerprint()}-{revision}":
            return None
        columns = entry["draws"]
        if any(len(values) < draws for values in columns.values()):
            return None
        return {name: values[:draws] for name, values in columns.items()}

    def put(self, cell: Cell, method: str, revision: int, columns: Columns) -> None:
        """Keeps the scores and writes the file, whole or not at all."""
        self._entries[f"{cell}/{method}"] = {
            "fingerprint": f"{cell.fingerprint()}-{revision}",
            "draws": {
                name: [float(f"{value:.6g}") for value in values]
                for name, values in columns.items()
            },
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".draft")
        lines = (
            f"{json.dumps(key)}: {json.dumps(self._entries[key])}" for key in sorted(self._entries)
        )
        draft.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        os.replace(draft, self._path)
