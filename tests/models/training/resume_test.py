"""A run that was stopped and taken up again ends where it would have ended."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

try:
    import torch

    from models.training.train import Training, parse_arguments
except ImportError:
    torch = None


def train(folder: Path, *more: str) -> dict[str, torch.Tensor]:
    """Four steps of a tiny model; the averaged weights follow those of the model."""
    options = "--steps 4 --budget 600 --layers 1 --log-every 2 --validation-batches 0".split()
    training = Training(parse_arguments(["--folder", str(folder), *options, *more]))
    training.run()
    average = dict(enumerate(training.average.average))
    return training.model.state_dict() | {f"average{k}": v for k, v in average.items()}


@unittest.skipIf(torch is None, "PyTorch is not installed")
class ResumeTest(unittest.TestCase):
    def check(self, *more: str) -> None:
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as pieces:
            expected = train(Path(whole), *more)
            stopped = train(Path(pieces), "--stop-at-step", "2", *more)
            resumed = train(Path(pieces), *more)
            self.assertTrue((Path(pieces) / "log.jsonl").exists())
        moved = 0
        for name, value in expected.items():
            torch.testing.assert_close(resumed[name], value, msg=name)
            moved += not torch.equal(stopped[name], value)
        self.assertGreater(moved, 50)

    def test_muon(self) -> None:
        self.check()

    def test_adam_and_slots(self) -> None:
        self.check("--optimizer", "adam", "--encoder", "slot_mlp")


if __name__ == "__main__":
    unittest.main()
