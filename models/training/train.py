"""Trains a model: python3 -m models.training.train --help.

On several GPUs of one host: torchrun --nproc-per-node N -m models.training.train ... Each process
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

from models.training.checkpoint import load_checkpoint, save_checkpoint
from models.training.clock import Clock
from models.training.curves import draw_curves
from models.training.loss import LossParts, batch_loss
from models.training.model import JointModel, compile_model
from models.training.model_config import default_config
from models.training.optimisation import (
    WeightAverage,
    finish_gradients,
    make_optimizers,
    set_learning_rate,
)
from models.training.prior.generator import draw_shape, generate
from models.training.prior.randomness import Randomness
from models.training.prior.tasks import BatchShape, TaskBatch
from models.training.throughput import Throughput

VALIDATION_SEED, WARM_UP_SEED = 77_777, 88_888
CLIP_NORM = 1.0
SAVE_EVERY = 1000
WARM_UP_BATCHES = 48  # enough to meet the cases that are compiled apart


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="checkpoint, log and picture")
    parser.add_argument("--encoder", default="cell_attention")
    parser.add_argument("--encoder-width", type=int, help="E, if not the default")
    parser.add_argument("--row-layers", type=int, help="of cell_attention, if not the default")
    parser.add_argument("--optimizer", default="muon", choices=("muon", "adam"))
    parser.add_argument("--lr-scale", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, help="length of the whole run")
    parser.add_argument("--steps", type=int, help="instead of minutes")
    parser.add_argument("--stop-after", type=float, help="minutes; save and stop, to go on later")
    parser.add_argument("--stop-at-step", type=int, help="save and stop there, to go on later")
    parser.add_argument("--budget", type=float, default=280_000, help="rows of a batch, about")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--validation-batches", type=int, default=48)
    return parser.parse_args(arguments)


def make_config(arguments: argparse.Namespace):
    config = default_config(arguments.encoder)
    config.n_layers = arguments.layers
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
    """Makes the next batch in a thread of its own while a step runs. Both launch their work in one
    order on one stream of the device, so nothing needs to be waited for."""

    def __init__(self, arguments: argparse.Namespace, buffer_size: int, rank: int, device):
        self.arguments, self.buffer_size = arguments, buffer_size
        self.rank, self.device = rank, device
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.ahead: tuple[int, Future] | None = None

    def make(self, step: int) -> tuple[BatchShape, TaskBatch]:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        rng = Randomness(self.arguments.seed, self.rank, step, self.device)
        shape = draw_shape(rng, self.arguments.budget, self.buffer_size)
        return shape, generate(rng, shape)

    def take(self, step: int) -> tuple[BatchShape, TaskBatch]:
        if self.ahead is None or self.ahead[0] != step:
            self.ahead = (step, self.thread.submit(self.make, step))
        batch = self.ahead[1].result()
        self.ahead = (step + 1, self.thread.submit(self.make, step + 1))
        return batch


class Training:
    """One process's part of a run."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.device, self.rank, self.world = start_process()
        torch.manual_seed(arguments.seed)
        self.model = JointModel(make_config(arguments)).to(self.device)
        self.parameters = list(self.model.parameters())
        self.average = WeightAverage(self.model)
        self.optimizers = make_optimizers(self.model, arguments.optimizer)
        self.step, elapsed = 0, 0.0
        if (arguments.folder / "run.json").exists():
            run = load_checkpoint(
                arguments.folder, self.model, self.average, self.optimizers
            )
            self.step, elapsed = run["step"], run["elapsed"]
        if arguments.compile:
            compile_model(self.model)
        self.batches = Batches(arguments, self.model.config.buffer_size, self.rank, self.device)
        if arguments.compile:
            self.warm_up()
        self.clock = Clock(arguments.minutes, arguments.steps, elapsed, self.device)
        self.throughput = Throughput(self.model.config, self.world)
        self.parts = LossParts(self.device)
        self.norms: list[torch.Tensor] = []

    def warm_up(self) -> None:
        """Compiles before the clock runs; the same batches on all processes, because one that has
        to compile later keeps all others waiting."""
        begin = time.monotonic()
        for index in range(WARM_UP_BATCHES):
            rng = Randomness(WARM_UP_SEED, 0, index, self.device)
            shape = draw_shape(rng, self.arguments.budget, self.model.config.buffer_size)
            batch = generate(rng, shape)
            with self.autocast():
                batch_loss(self.model, batch, LossParts(self.device)).backward()
            self.model.zero_grad(set_to_none=True)
        if self.rank == 0:
            print(f"compiled in {time.monotonic() - begin:.0f} s", flush=True)

    def autocast(self) -> torch.autocast:
        return torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
        )

    def train_step(self, progress: float) -> None:
        arguments = self.arguments
        set_learning_rate(self.optimizers, self.step, progress, arguments.lr_scale)
        shape, batch = self.batches.take(self.step)
        with self.autocast():
            loss = batch_loss(self.model, batch, self.parts)
        loss.backward()
        self.norms.append(finish_gradients(self.parameters, self.world, CLIP_NORM))
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.average.update(self.step)
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
            if progress >= 1.0 and arguments.validation_batches:
                self.validate()
            draw_curves(arguments.folder)

    def log(self, progress: float) -> None:
        """One line of JSON, of the first process's own batches."""
        norms = torch.stack(self.norms)
        entry = {"step": self.step, "seconds": round(self.clock.elapsed(), 1)}
        entry["progress"] = round(progress, 4)
        entry |= self.parts.summary() | self.throughput.summary()
        entry["gradient_norm"] = round(norms[torch.isfinite(norms)].mean().item(), 4)
        entry["skipped"] = int((~torch.isfinite(norms)).sum())
        self.parts, self.norms = LossParts(self.device), []
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
            run = {"step": self.step, "elapsed": self.clock.elapsed(), "seed": self.arguments.seed}
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
            batch = generate(rng, draw_shape(rng, 40_000, self.model.config.buffer_size))
            with self.autocast():
                batch_loss(self.model, batch, parts)
        self.average.swap()
        self.write({"step": self.step} | parts.summary(), "validation.jsonl")


if __name__ == "__main__":
    Training(parse_arguments()).run()
    if dist.is_initialized():
        dist.destroy_process_group()
