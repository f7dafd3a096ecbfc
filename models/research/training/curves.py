"""The loss curve of a run as a picture."""

from __future__ import annotations

import json
from pathlib import Path

SMOOTHING = 0.15  # weight of the newest point


def smooth(values: list[float]) -> list[float]:
    out: list[float] = []
    for value in values:
        out.append(value if not out else out[-1] + SMOOTHING * (value - out[-1]))
    return out


def draw_curves(folder: Path) -> None:
    """log.jsonl of the folder -> curves.png."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    log = folder / "log.jsonl"
    if not log.exists():
        return
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    figure, axes = pyplot.subplots(1, 3, figsize=(16, 4.5), constrained_layout=True)
    titles = ("targets on a path", "targets by themselves", "gap to the true density, from 64 rows")
    for axis, title, suffixes in zip(
        axes, titles, (("_path",), ("_independent",), ("_gap_medium", "_gap_large"))
    ):
        for name in sorted({key for entry in entries for key in entry if key.endswith(suffixes)}):
            points = [(entry["step"], entry[name]) for entry in entries if name in entry]
            steps, values = zip(*points)
            axis.plot(steps, smooth(list(values)), label=name, linewidth=1.2)
        axis.set_title(title)
        axis.set_xlabel("step")
        axis.set_ylabel("nat per target")
        axis.grid(alpha=0.3)
        if axis.lines:
            axis.legend(fontsize=7)
    axes[2].set_ylim(0, 0.5)
    figure.savefig(folder / "curves.png", dpi=80)
    pyplot.close(figure)
