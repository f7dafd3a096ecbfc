"""Trains a model: python3 -m models.research.training.train --help.

On several GPUs of one host: torchrun --nproc-per-node N -m models.research.training.train ... Each process
makes its own batches; gradients are averaged. A run is a pure function of its seed, the number of
processes and, where it is bounded by minutes, of the machine's pace.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed as dist

from models.research.training.captured import CapturedSteps, capture_update, tensors
from models.research.training.checkpoint import load_average, load_checkpoint, save_checkpoint
from models.research.training.clock import Clock
from models.research.training.curves import draw_curves
from models.research.training.loss import LossParts, batch_loss
from models.research.training.model import JointModel, compile_model
from models.research.training.model_config import default_config
from models.research.training.optimisation import (
    Gradients,
    WeightAverage,
    make_optimizers,
    optimizer_state,
    set_learning_rate,
)
from models.research.training.prior.generator import draw_deck, draw_shape, generate
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.tasks import BatchShape, TaskBatch
from models.research.training.throughput import Throughput

VALIDATION_SEED = 77_777
DECK = 1_000_000  # in the place of a rank, for the deck of shapes and what is captured with it
SAVE_EVERY = 500


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="checkpoint, log and picture")
    parser.add_argument(
        "--weights",
        type=Path,
        help="start from the averaged weights of this checkpoint, or from a folder that is served",
    )
    parser.add_argument("--encoder", default="cell_attention")
    parser.add_argument("--encoder-width", type=int, help="E, if not the default")
    parser.add_argument("--row-layers", type=int, help="of cell_attention, if not the default")
    parser.add_argument("--heads", type=int, help="of the trunk, if not the default")
    parser.add_argument("--optimizer", default="muon", choices=("muon", "adam"))
    parser.add_argument("--lr-scale", type=float, default=1.0)
    parser.add_argument(
        "--clip-norm", type=float, default=1.0, help="bound on the norm of all gradients together"
    )
    parser.add_argument("--minutes", type=float, help="length of the whole run")
    parser.add_argument("--steps", type=int, help="instead of minutes")
    parser.add_argument("--stop-after", type=float, help="minutes; save and stop, to go on later")
    parser.add_argument("--stop-at-step", type=int, help="save and stop there, to go on later")
    parser.add_argument("--budget", type=float, default=180_000, help="what a batch may cost, see prior")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument(
        "--shapes", type=int, default=90, help="that batches of a process have; best a multiple of 30"
    )
    parser.add_argument("--compile", action="store_true", help="and capture CUDA graphs")
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--validation-batches", type=int, default=48)
    return parser.parse_args(arguments)


def make_config(arguments: argparse.Namespace):
    config = default_config(arguments.encoder)
    config.n_layers = arguments.layers
    if arguments.heads:
        config.n_heads = arguments.heads
    if arguments.encoder_width:
        config.encoder_width = arguments.encoder_width
        if config.encoder_heads:
            config.encoder_heads = arguments.encoder_width // 16
    if arguments.row_layers is not None:
        config.encoder_row_layers = arguments.row_layers
    return config


def start_process() -> tuple[torch.device, int, int]:
    """The device, the rank and the number of processes."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if not torch.cuda.is_available():
        return torch.device("cpu"), 0, 1
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for every shape: half a second each
    if world > 1:
        dist.init_process_group("nccl", device_id=device)
    return device, rank, world


class Batches:
    """Makes the next batch in a thread and on a stream of its own while a step runs."""

    def __init__(self, arguments: argparse.Namespace, deck: list[BatchShape], rank: int, device):
        self.arguments, self.deck = arguments, deck
        self.rank, self.device = rank, device
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.ahead: tuple[int, Future] | None = None
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def make(self, step: int) -> tuple[BatchShape, TaskBatch, torch.cuda.Event | None]:
        rng = Randomness(self.arguments.seed, self.rank, step, self.device)
        shape = rng.host.choice(self.deck)
        if self.stream is None:
            return shape, generate(rng, shape), None
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            batch = generate(rng, shape)
            ready = torch.cuda.Event()
            ready.record()
        return shape, batch, ready

    def take(self, step: int) -> tuple[BatchShape, TaskBatch]:
        if self.ahead is None or self.ahead[0] != step:
            self.ahead = (step, self.thread.submit(self.make, step))
        shape, batch, ready = self.ahead[1].result()
        self.ahead = (step + 1, self.thread.submit(self.make, step + 1))
        if ready is not None:
            stream = torch.cuda.current_stream()
            stream.wait_event(ready)
            for tensor in tensors(batch):
                tensor.record_stream(stream)
        return shape, batch


class Training:
    """One process's part of a run."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.device, self.rank, self.world = start_process()
        torch.manual_seed(arguments.seed)
        self.model = JointModel(make_config(arguments)).to(self.device)
        self.model.trunk.two_parts = self.device.type == "cuda"
        self.gradients = Gradients(list(self.model.parameters()))
        self.average = WeightAverage(self.model)
        self.optimizers = make_optimizers(self.model, arguments.optimizer)
        self.step, elapsed = 0, 0.0
        if (arguments.folder / "run.json").exists():
            run = load_checkpoint(arguments.folder, self.model, self.average, self.optimizers)
            if run["batches"] != self.batches_made_of():
                raise ValueError(
                    f"{arguments.folder}: the run to go on with was started with {run['batches']}, "
                    f"not {self.batches_made_of()}"
                )
            self.step, elapsed = run["step"], run["elapsed"]
        elif arguments.weights:
            load_average(arguments.weights, self.model)
            self.average = WeightAverage(self.model)
        self.parts = LossParts(self.device)
        # Of the gradients' norms: their sum, how many were finite, how many were not.
        self.norms = torch.zeros(3, device=self.device)
        self.deck = draw_deck(
            Randomness(arguments.seed, DECK, 0, "cpu"),
            arguments.shapes * self.world,
            arguments.budget,
            self.model.config.buffer_size,
        )[self.rank :: self.world]
        self.compute, self.update = self.compute_eagerly, self.update_eagerly
        if arguments.compile:
            self.capture()
        self.batches = Batches(arguments, self.deck, self.rank, self.device)
        self.clock = Clock(arguments.minutes, arguments.steps, elapsed, self.device)
        self.throughput = Throughput(self.model.config, self.world)

    def batches_made_of(self) -> dict[str, float]:
        """A run that goes on with others would not get the batches it would have had."""
        arguments = self.arguments
        return {
            "seed": arguments.seed,
            "budget": arguments.budget,
            "shapes": arguments.shapes,
            "processes": self.world,
        }

    def capture(self) -> None:
        """Compiles the model and captures a step of each shape, before the clock runs."""
        begin = time.monotonic()
        compile_model(self.model)
        steps = CapturedSteps(lambda batch: self.compute_eagerly(None, batch))
        for index, shape in enumerate(dict.fromkeys(self.deck)):
            rng = Randomness(self.arguments.seed, DECK, 1 + index, self.device)
            steps.capture(shape, generate(rng, shape))
        if self.step == 0:
            self.start_optimizers()
        state = [*self.model.parameters(), *self.average.average, *optimizer_state(self.optimizers)]
        graph = capture_update(self.update_eagerly, state)
        self.compute, self.update = steps.replay, graph.replay
        self.parts.reset()
        self.norms.zero_()
        torch.cuda.synchronize()
        if self.rank == 0:
            seconds = time.monotonic() - begin
            print(f"compiled and captured {len(steps.graphs)} shapes in {seconds:.0f} s", flush=True)

    def start_optimizers(self) -> None:
        """Has them make their state, which they do in their first step, and leaves it at zero."""
        self.gradients.flat.zero_()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"].zero_()
            optimizer.step()
        for tensor in optimizer_state(self.optimizers):
            tensor.zero_()

    def autocast(self) -> torch.autocast:
        return torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
        )

    def compute_eagerly(self, _: BatchShape | None, batch: TaskBatch) -> None:
        with self.autocast():
            loss = batch_loss(self.model, batch, self.parts)
        self.gradients.compute(loss)

    def update_eagerly(self) -> None:
        norm = self.gradients.bound(self.arguments.clip_norm)
        finite = torch.isfinite(norm)
        self.norms += torch.stack([torch.where(finite, norm, 0), finite.float(), (~finite).float()])
        for optimizer in self.optimizers:
            optimizer.step()
        self.average.update()

    def train_step(self, progress: float) -> None:
        set_learning_rate(self.optimizers, self.step, progress, self.arguments.lr_scale)
        self.average.set_step(self.step)
        shape, batch = self.batches.take(self.step)
        self.compute(shape, batch)
        self.gradients.share(self.world)
        self.update()
        self.throughput.add(shape)
        self.step += 1

    def run(self) -> None:
        arguments, begin = self.arguments, time.monotonic()
        while (progress := self.clock.tick(self.step)) < 1.0:
            spent = self.clock.now - self.clock.begin_elapsed
            if arguments.stop_after and spent > 60 * arguments.stop_after:
                break
            if arguments.stop_at_step and self.step >= arguments.stop_at_step:
                break
            self.train_step(progress)
            if self.step % arguments.log_every == 0:
                self.log(progress)
            if self.step % SAVE_EVERY == 0:
                self.save()
        self.save()
        if self.rank == 0:
            print(f"stopped at step {self.step} after {time.monotonic() - begin:.0f} s", flush=True)
            if self.device.type == "cuda":
                print(f"most memory: {torch.cuda.max_memory_reserved() / 2**30:.1f} GiB", flush=True)
            if progress >= 1.0 and arguments.validation_batches:
                self.validate()
            draw_curves(arguments.folder)

    def log(self, progress: float) -> None:
        """One line of JSON, of the first process's own batches."""
        total, finite, skipped = self.norms.tolist()
        entry = {"step": self.step, "seconds": round(self.clock.elapsed(), 1)}
        entry["progress"] = round(progress, 4)
        entry |= self.parts.summary() | self.throughput.summary()
        entry["gradient_norm"] = round(total / max(finite, 1), 4)
        entry["skipped"] = int(skipped)
        self.parts.reset()
        self.norms.zero_()
        self.throughput = Throughput(self.model.config, self.world)
        if self.rank == 0:
            self.write(entry, "log.jsonl")

    def write(self, entry: dict, name: str) -> None:
        self.arguments.folder.mkdir(parents=True, exist_ok=True)
        with (self.arguments.folder / name).open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print(json.dumps(entry), flush=True)

    def save(self) -> None:
        if self.rank == 0:
            run = {"step": self.step, "elapsed": self.clock.elapsed()}
            run["batches"] = self.batches_made_of()
            save_checkpoint(
                self.arguments.folder, self.model, self.average, self.optimizers, run
            )

    def validate(self) -> None:
        """The averaged weights on batches that no training step sees. With gradients on, because
        without them everything would be compiled again."""
        self.average.swap()
        parts = LossParts(self.device)
        for index in range(self.arguments.validation_batches):
            rng = Randomness(VALIDATION_SEED, 0, index, self.device)
            batch = generate(rng, draw_shape(rng, 25_000, self.model.config.buffer_size))
            with self.autocast():
                batch_loss(self.model, batch, parts)
        self.average.swap()
        self.write({"step": self.step} | parts.summary(), "validation.jsonl")


if __name__ == "__main__":
    Training(parse_arguments()).run()
    if dist.is_initialized():
        dist.destroy_process_group()
