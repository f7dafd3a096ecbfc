"""Tests the cache of baseline scores and the program as a whole, without a model."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import required_packages  # noqa: F401

from models.research.evaluate import __main__ as program
from models.research.evaluate.cells import Cell
from models.research.evaluate.score_cache import ScoreCache

CELL = Cell("gp", "rbf_d1_noise0.1", "4")


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class ScoreCacheTest(FolderTest):
    def test_keeps_scores_over_processes(self):
        path = self.folder / "new" / "cache.json"
        ScoreCache(path).put(CELL, "exact", 1, {"crps": [0.1, 0.2, 0.3]})
        self.assertEqual(ScoreCache(path).get(CELL, "exact", 1, 2), {"crps": [0.1, 0.2]})

    def test_does_not_use_what_is_short_stale_or_of_others(self):
        cache = ScoreCache(self.folder / "cache.json")
        cache.put(CELL, "exact", 1, {"crps": [0.1, 0.2]})
        self.assertIsNone(cache.get(CELL, "exact", 1, 3))
        self.assertIsNone(cache.get(CELL, "exact", 2, 2))
        self.assertIsNone(cache.get(CELL, "fitted", 1, 2))
        self.assertIsNone(cache.get(Cell("gp", "rbf_d1_noise0.1", "16"), "exact", 1, 2))

    def test_other_data_is_not_used(self):
        path = self.folder / "cache.json"
        ScoreCache(path).put(CELL, "exact", 1, {"crps": [0.1]})
        path.write_text(path.read_text().replace(CELL.fingerprint(), "0" * 12))
        self.assertIsNone(ScoreCache(path).get(CELL, "exact", 1, 1))


class ProgramTest(FolderTest):
    def _run(self, *arguments):
        messages = io.StringIO()
        with contextlib.redirect_stderr(messages):
            program.main(
                [
                    "--baselines-only",
                    "--out",
                    str(self.folder),
                    "--cache",
                    str(self.folder / "cache.json"),
                    *arguments,
                ]
            )
        return messages.getvalue()

    def test_writes_report_scores_and_cache(self):
        arguments = (
            "--parts",
            "tables,gp,series",
            "--tables",
            "engel,rbf_d1_noise0.1,nile",
            "--sizes",
            "16",
            "--methods",
            "constant,bayesian_ridge",
            "--draws",
            "2",
        )
        first = self._run(*arguments)
        self.assertIn("tables/engel/16 constant", first)
        page = (self.folder / "report.md").read_text()
        self.assertIn("| engel | 16 |", page)
        self.assertIn("## Gaussian-process data", page)
        raw = json.loads((self.folder / "scores.json").read_text())
        self.assertEqual(len(raw["scores"]["tables/engel/16"]["constant"]["crps"]), 2)
        self.assertEqual(set(raw["scores"]["tables/engel/16"]), {"constant", "bayesian_ridge"})
        self.assertEqual(set(raw["scores"]["series/nile/16"]), {"gaussian_process"})
        self.assertNotIn("engel/16 gaussian_process", first)
        self.assertNotIn("tables/engel/16", self._run(*arguments))  # from the cache

    def test_refuses_names_that_do_not_exist(self):
        with self.assertRaisesRegex(SystemExit, "nonesuch"):
            self._run("--tables", "nonesuch")


if __name__ == "__main__":
    unittest.main()
