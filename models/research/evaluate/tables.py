"""Real regression tables that ship inside scikit-learn and statsmodels; nothing is downloaded.

No table was used for any choice made in training. Targets with a large atom (counts that are mostly
zero, for instance) are left out: a density there measures only how narrow a spike a method dares.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import pathlib
import zlib
from collections.abc import Callable

import numpy as np
import pandas as pd


@dataclasses.dataclass(frozen=True)
class Table:
    """A table ready for the protocol."""

    name: str
    x: np.ndarray  # [N, F] float64; NaN = missing; a categorical cell holds its category's index
    is_categorical: np.ndarray  # [F] bool
    y: np.ndarray  # [N] float64, z-scored over the whole table


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a table comes from and how its columns are read."""

    name: str
    load: Callable[[], pd.DataFrame]
    target: str
    origin: str
    licence: str
    categorical: tuple[str, ...] = ()  # beside the columns of strings
    leave_out: tuple[str, ...] = ()  # identifiers, copies and functions of the target
    # The step to which a coarse target was rounded. Uniform noise of that width (fixed seed) makes
    # it continuous, so that no method gains from spikes at the few values that occur.
    rounding: float = 0.0


def _sklearn(name: str, group: str | None = None) -> Callable[[], pd.DataFrame]:
    def load() -> pd.DataFrame:
        module = importlib.import_module("sklearn.datasets")
        bunch = getattr(module, f"load_{name}")(as_frame=True)
        if group is None:
            return bunch.frame
        return bunch.frame.rename(columns={"target": group})

    return load


def _statsmodels(name: str) -> Callable[[], pd.DataFrame]:
    def load() -> pd.DataFrame:
        return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data

    return load


def _installed_csv(package: str, path: str) -> Callable[[], pd.DataFrame]:
    """A CSV file that the package installs, without importing the package."""

    def load() -> pd.DataFrame:
        folder = importlib.util.find_spec(package).submodule_search_locations[0]
        return pd.read_csv(pathlib.Path(folder) / path)

    return load


def _breast_cancer() -> pd.DataFrame:
    """Predict the largest nuclei of a sample from the means and standard errors over its nuclei."""
    frame = _sklearn("breast_cancer", "diagnosis")()
    others = [c for c in frame if c.startswith("worst") and c != "worst area"]
    return frame.drop(columns=others)


def _fertility() -> pd.DataFrame:
    """Predict a country's fertility in 2010 from every fifth year up to 1990."""
    frame = _statsmodels("fertility")()
    return frame[[str(year) for year in range(1960, 1995, 5)] + ["2010"]]


def _star98() -> pd.DataFrame:
    """Predict a school district's share of pupils above the national median."""
    frame = _statsmodels("star98")()
    frame["share_above"] = frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"])
    return frame.drop(columns=["NABOVE", "NBELOW"])


def _elnino() -> pd.DataFrame:
    """Predict December's sea surface temperature from January to September."""
    return _statsmodels("elnino")().drop(columns=["OCT", "NOV"])


_PUBLIC = "public domain, as the package states"
_PERMITTED = "used with the original author's permission, as the package states"
_UCI = "CC BY 4.0 (UCI Machine Learning Repository)"
_UNSTATED = "not stated in the package; read from the installed copy only"

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "diabetes",
            _sklearn("diabetes"),
            "target",
            "scikit-learn load_diabetes (Efron et al. 2004)",
            _UNSTATED,
            ("sex",),
        ),
        Source(
            "wine",
            _sklearn("wine", "cultivar"),
            "alcohol",
            "scikit-learn load_wine (Forina et al.)",
            _UCI,
            ("cultivar",),
        ),
        Source(
            "iris",
            _sklearn("iris", "species"),
            "petal length (cm)",
            "scikit-learn load_iris (Fisher 1936)",
            _UCI,
            ("species",),
            rounding=0.1,
        ),
        Source(
            "breast_cancer",
            _breast_cancer,
            "worst area",
            "scikit-learn load_breast_cancer (Wolberg et al. 1995)",
            _UCI,
            ("diagnosis",),
        ),
        Source(
            "anes96",
            _statsmodels("anes96"),
            "income",
            "statsmodels anes96 (American National Election Studies 1996)",
            _PUBLIC,
            ("vote",),
            ("logpopul",),
            rounding=1.0,
        ),
        Source(
            "autos",
            _installed_csv("statsmodels", "gam/tests/results/autos.csv"),
            "price",
            "statsmodels gam tests, autos (Ward's Automotive Yearbook 1985)",
            _UCI,
        ),
        Source(
            "birth_weight",
            _installed_csv("statsmodels", "genmod/tests/results/stata_lbw_glm.csv"),
            "bwt",
            "statsmodels genmod tests, stata_lbw_glm (Hosmer and Lemeshow)",
            _UNSTATED,
            ("smoke", "ht", "ui"),
            ("id", "low"),
        ),
        Source(
            "births",
            _installed_csv("statsmodels", "treatment/tests/results/cataneo2.csv"),
            "bweight",
            "statsmodels treatment tests, cataneo2 (Cattaneo 2010)",
            _UNSTATED,
            ("mhisp", "fhisp", "foreign", "alcohol", "deadkids", "mrace", "frace"),
            ("lbweight", "mbsmoke_", "mmarried_", "fbaby_", "prenatal1_", "mage2"),
        ),
        Source(
            "ccard",
            _statsmodels("ccard"),
            "AVGEXP",
            "statsmodels ccard (Greene)",
            _PERMITTED,
            ("OWNRENT",),
            ("INCOMESQ",),
        ),
        Source(
            "dietox",
            _installed_csv("statsmodels", "regression/tests/results/dietox.csv"),
            "Weight",
            "statsmodels regression tests, dietox (Lauridsen et al. 1999)",
            _UNSTATED,
            ("Evit", "Cu", "Litter"),
            ("Pig",),
        ),
        Source("elnino", _elnino, "DEC", "statsmodels elnino (NOAA)", _PUBLIC),
        Source(
            "engel",
            _statsmodels("engel"),
            "foodexp",
            "statsmodels engel (Koenker and Bassett 1982)",
            _PUBLIC,
        ),
        Source(
            "fertility",
            _fertility,
            "2010",
            "statsmodels fertility (World Bank)",
            "World Bank terms of use",
        ),
        Source(
            "grunfeld",
            _statsmodels("grunfeld"),
            "invest",
            "statsmodels grunfeld (Grunfeld 1958)",
            _PUBLIC,
        ),
        Source(
            "modechoice",
            _statsmodels("modechoice"),
            "gc",
            "statsmodels modechoice (Greene)",
            _PUBLIC,
            ("mode", "choice"),
            ("individual",),
        ),
        Source("star98", _star98, "share_above", "statsmodels star98 (Gill)", _PERMITTED),
        Source(
            "statecrime",
            _statsmodels("statecrime"),
            "murder",
            "statsmodels statecrime (US Census and FBI 2009)",
            _PUBLIC,
        ),
    )
}


def _numbers(column: pd.Series, is_categorical: bool) -> np.ndarray:
    """[N] float64: the cells, or the indices of their categories in sorted order; NaN = missing."""
    if not is_categorical:
        return column.to_numpy(dtype=np.float64)
    codes, _ = pd.factorize(column, sort=True)  # -1 = missing
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def from_frame(source: Source, frame: pd.DataFrame) -> Table:
    """Reads a frame as its source says; rows without a target are dropped."""
    frame = frame.dropna(subset=[source.target]).drop(columns=list(source.leave_out))
    features = frame.drop(columns=[source.target])
    is_categorical = np.array(
        [
            name in source.categorical or not pd.api.types.is_numeric_dtype(column)
            for name, column in features.items()
        ]
    )
    columns = [
        _numbers(column, flag)
        for (_, column), flag in zip(features.items(), is_categorical, strict=True)
    ]
    y = frame[source.target].to_numpy(dtype=np.float64)
    noise = np.random.default_rng(zlib.crc32(source.name.encode())).uniform(-0.5, 0.5, len(y))
    y = y + source.rounding * noise
    return Table(source.name, np.stack(columns, axis=1), is_categorical, (y - y.mean()) / y.std())


@functools.cache
def load(name: str) -> Table:
    """The table of that name, a key of SOURCES."""
    source = SOURCES[name]
    return from_frame(source, source.load())
