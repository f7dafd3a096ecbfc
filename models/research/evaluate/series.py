"""Real series that ship inside statsmodels: the past is the context, what follows the targets."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable

import numpy as np
import pandas as pd

from models.research.evaluate.split import Split

SIZES = ("16", "64", "256")
TARGETS = 16


def _column(dataset: str, column: str) -> Callable[[], np.ndarray]:
    def load() -> np.ndarray:
        frame = importlib.import_module(f"statsmodels.datasets.{dataset}").load_pandas().data
        return frame[column].to_numpy(dtype=np.float64)

    return load


def _monthly_co2() -> np.ndarray:
    """Monthly means of the weekly record; the few empty months are interpolated."""
    frame = importlib.import_module("statsmodels.datasets.co2").load_pandas().data
    weekly = pd.Series(frame["co2"].to_numpy(), index=pd.to_datetime(frame.index))
    return weekly.resample("MS").mean().interpolate().to_numpy()


@dataclasses.dataclass(frozen=True)
class Source:
    """A series and where it comes from; all are in the public domain, as statsmodels states."""

    name: str
    load: Callable[[], np.ndarray]
    period: int  # values in a year when the year's season matters, else 1
    origin: str


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "sunspots",
            _column("sunspots", "SUNACTIVITY"),
            1,
            "statsmodels sunspots, yearly 1700-2008",
        ),
        Source("nile", _column("nile", "volume"), 1, "statsmodels nile, yearly 1871-1970"),
        Source("co2", _monthly_co2, 12, "statsmodels co2, Mauna Loa, monthly 1958-2001"),
        Source(
            "unemployment",
            _column("macrodata", "unemp"),
            4,
            "statsmodels macrodata, quarterly 1959-2009",
        ),
        Source(
            "inflation",
            _column("macrodata", "infl"),
            4,
            "statsmodels macrodata, quarterly 1959-2009",
        ),
        Source(
            "equipment",
            _column("elec_equip", "STS.M.I7.W.TOVT.NS0016.4.000"),
            12,
            "statsmodels elec_equip, monthly turnover in the euro area",
        ),
    )
}


@functools.cache
def load(name: str) -> np.ndarray:
    """[N] the series, z-scored as a whole."""
    values = SOURCES[name].load()
    return (values - values.mean()) / values.std()


def sizes(name: str) -> list[str]:
    """The sizes of which at least two different windows fit."""
    return [size for size in SIZES if len(load(name)) - int(size) - TARGETS >= 1]


def split(name: str, size: str, draw: int, draws: int = 20) -> Split:
    """Window number `draw` of `draws` evenly spaced ones.

    The features are the time and, for a series with a season, the position in the year as a category.
    """
    values, period, count = load(name), SOURCES[name].period, int(size)
    first = round(draw * (len(values) - count - TARGETS) / (draws - 1))
    time = np.arange(first, first + count + TARGETS, dtype=np.float64)
    columns = [time] if period == 1 else [time, time % period]
    x = np.stack(columns, axis=1)
    y = values[first : first + count + TARGETS]
    return Split(
        x[:count],
        y[:count],
        x[count:],
        y[count:],
        np.array([False, True][: len(columns)]),
        (TARGETS,),
        ordered=True,
        seed=draw,
    )
