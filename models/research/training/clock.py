"""How far a run has come, the same on every process."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

STEPS_BETWEEN_READINGS = 20


class Clock:
    """A run is over after so many minutes or so many steps. Minutes are those of the first process,
    which tells the others now and then; between two readings progress goes on at the last rate, so
    that all processes always have the same learning rate and stop at the same step."""

    def __init__(
        self, minutes: float | None, steps: int | None, elapsed: float, device: torch.device
    ):
        if (minutes is None) == (steps is None):
            raise ValueError("give either minutes or steps")
        self.seconds = None if minutes is None else 60 * minutes
        self.steps = steps
        self.device = device
        self.begin = time.monotonic() - elapsed
        self.read_step, self.read_elapsed, self.rate = -1, elapsed, 0.0
        self.now = self.begin_elapsed = elapsed

    def elapsed(self) -> float:
        """Seconds of training, over all pieces of the run, of this process."""
        return time.monotonic() - self.begin

    def tick(self, step: int) -> float:
        """Progress in [0, 1] before this step; 1 or more is the end."""
        if self.steps is not None:
            return step / self.steps
        if self.read_step < 0 or step % STEPS_BETWEEN_READINGS == 0:
            reading = torch.tensor([self.elapsed()], dtype=torch.float64, device=self.device)
            if dist.is_initialized():
                dist.broadcast(reading, src=0)
            now = reading.item()
            if self.read_step >= 0 and step > self.read_step:
                self.rate = (now - self.read_elapsed) / (step - self.read_step)
            self.read_step, self.read_elapsed = step, now
        self.now = self.read_elapsed + self.rate * (step - self.read_step)
        return self.now / self.seconds
