"""A run that was stopped and taken up again ends where it would have ended."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

try:
    import torch

    from models.research.training.model import JointModel
    from models.research.training.model_config import default_config
    from models.research.training.train import Training, parse_arguments
    from models.research.training.weight_file import save_weights
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

    def test_a_run_starts_from_the_averaged_weights_of_another(self) -> None:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            trained = train(Path(first))
            options = ["--folder", second, "--weights", first, "--steps", "1", "--layers", "1"]
            started = Training(parse_arguments([*options, "--budget", "600"]))
            for index, parameter in enumerate(started.model.parameters()):
                torch.testing.assert_close(parameter.detach(), trained[f"average{index}"])
                torch.testing.assert_close(started.average.average[index], parameter.detach())
            self.assertEqual(started.step, 0)
            with self.assertRaisesRegex(ValueError, "another configuration"):
                Training(parse_arguments([*options, "--encoder-width", "32"]))

    def test_a_run_starts_from_weights_of_another_number_of_heads(self) -> None:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            trained = train(Path(first), "--heads", "4")
            options = ["--folder", second, "--weights", first, "--steps", "1", "--layers", "1"]
            started = Training(parse_arguments([*options, "--budget", "600", "--heads", "2"]))
            self.assertEqual(started.model.trunk.heads, 2)
            for index, parameter in enumerate(started.model.parameters()):
                torch.testing.assert_close(parameter.detach(), trained[f"average{index}"])
            with self.assertRaisesRegex(ValueError, "another configuration"):
                Training(parse_arguments(["--folder", first, *options[2:], "--budget", "600", "--heads", "2"]))

    def test_a_run_starts_from_weights_that_are_served(self) -> None:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            config = default_config("cell_attention")
            config.n_layers = 1
            config.save(first)
            served = JointModel(config)
            save_weights(served.state_dict(), first, torch.float32)
            options = ["--folder", second, "--weights", first, "--steps", "1", "--layers", "1"]
            started = Training(parse_arguments([*options, "--budget", "600"]))
            for name, value in started.model.state_dict().items():
                self.assertTrue(torch.equal(value, served.state_dict()[name]), name)

    def test_a_run_goes_on_with_its_own_batches_only(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            train(Path(folder), "--stop-at-step", "2")
            for other in (("--seed", "2"), ("--shapes", "27"), ("--budget", "700")):
                with self.subTest(other), self.assertRaisesRegex(ValueError, "was started with"):
                    train(Path(folder), *other)

    def test_rates_and_ways_of_stepping_are_not_those_of_the_checkpoint(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            train(Path(folder), "--stop-at-step", "2")
            path = Path(folder) / "optimizer1.pt"
            state = torch.load(path, weights_only=True)
            for group in state["param_groups"]:
                group["lr"], group["capturable"], group["fused"] = 0.5, True, True
            torch.save(state, path)
            train(Path(folder))

    def test_making_the_state_of_optimisers_changes_nothing(self) -> None:
        """What is done before a step is captured."""
        results = []
        for early in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                options = ["--folder", folder, "--steps", "2", "--budget", "600", "--layers", "1"]
                training = Training(parse_arguments([*options, "--validation-batches", "0"]))
                if early:
                    training.start_optimizers()
                training.run()
                results.append(training.model.state_dict())
        for name, value in results[0].items():
            torch.testing.assert_close(results[1][name], value, msg=name)

    def test_adam_and_slots(self) -> None:
        self.check("--optimizer", "adam", "--encoder", "slot_mlp")


if __name__ == "__main__":
    unittest.main()
