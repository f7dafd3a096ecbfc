"""The part of the Chorale server that runs on NVIDIA GPUs."""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).resolve().parent / "libchorale_cuda.so"
"""What the server opens when it starts."""
