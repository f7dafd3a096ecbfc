"""Predictions of a model folder in a user's units. Float64 in and out; the model in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.research.training.mixture import Mixture
from models.research.training.prior.phase_column import find_season
from models.research.training.prior.scaling import (
    RULE,
    ColumnScaling,
    ScalingRule,
    TargetScaling,
)
from models.research.training.row_encoders import Cells
from models.research.training.weight_file import load_model

TARGETS_AT_ONCE = 4096
ORDERS_AT_ONCE = 64

Array = np.ndarray


class Table:
    """A context's cells and targets, scaled as the server does it, and the way back.

    With seasons, a column with the phase of the season that the context shows is added, the last, unless
    the table would then have more than max_features (0: no limit). Dates are days since 1970-01-01.
    """

    def __init__(
        self,
        context_x: Array,
        context_y: Array,
        is_categorical: Array | None,
        rule: ScalingRule = RULE,
        *,
        seasons: bool = False,
        max_features: int = 0,
        is_date: Array | None = None,
    ):
        x = np.array(context_x, dtype=np.float64)
        y = np.array(context_y, dtype=np.float64)
        categorical = np.zeros(x.shape[1], bool)
        if is_categorical is not None:
            categorical = np.asarray(is_categorical, bool)
        fits = max_features == 0 or x.shape[1] < max_features
        self.season = find_season(x, y, categorical, is_date=is_date) if seasons and fits else None
        if self.season is not None:
            x, categorical = self.with_phase(x), np.append(categorical, False)
        self.dictionaries = {
            column: np.unique(x[~np.isnan(x[:, column]), column])
            for column in np.flatnonzero(categorical)
        }
        numbers = torch.from_numpy(self.numbers(x))
        self.categorical = torch.from_numpy(categorical)
        self.columns = ColumnScaling.fit(numbers, self.categorical, rule)
        # Columns that say nothing are left out, but a table has at least one.
        self.kept = (~self.columns.says_nothing[0]).nonzero()[:, 0]
        if len(self.kept) == 0:
            self.kept = torch.zeros(min(1, x.shape[1]), dtype=torch.long)
        self.missing = torch.isnan(numbers)
        self.target = TargetScaling.fit(torch.from_numpy(y), rule)
        self.y_mean, self.y_std = self.target.mean.item(), self.target.std.item()

    def with_phase(self, x: Array) -> Array:
        """[R, F] -> [R, F + 1] where the context has a season."""
        x = np.array(x, dtype=np.float64)
        return x if self.season is None else np.column_stack([x, self.season.phase(x)])

    def numbers(self, x: Array) -> Array:
        """Categories as indices into the context's sorted dictionary; unknown ones become NaN."""
        x = np.array(x, dtype=np.float64)
        for column, known in self.dictionaries.items():
            if len(known) == 0:
                x[:, column] = np.nan
                continue
            index = np.searchsorted(known, x[:, column]).clip(0, len(known) - 1)
            x[:, column] = np.where(known[index] == x[:, column], index, np.nan)
        return x

    def context_cells(self, device: torch.device, dtype: torch.dtype) -> Cells:
        return self.batch(self.columns.context, self.missing, device, dtype)

    def cells(self, x: Array, device: torch.device, dtype: torch.dtype) -> Cells:
        """Other rows [R, F] -> a batch of one table."""
        numbers = torch.from_numpy(self.numbers(self.with_phase(x)))
        return self.batch(self.columns.values(numbers), torch.isnan(numbers), device, dtype)

    def batch(
        self, value: Tensor, missing: Tensor, device: torch.device, dtype: torch.dtype
    ) -> Cells:
        missing = missing & ~self.columns.says_nothing
        return Cells(
            value[None, :, self.kept].to(device, dtype),
            missing[None, :, self.kept].to(device),
            self.categorical[None, self.kept].to(device),
        )

    def context_y(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        return self.target.context.to(device, dtype)

    def scale_y(self, y: Array, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Of other rows."""
        return self.target.values(torch.from_numpy(np.array(y, dtype=np.float64))).to(device, dtype)


class EncodedContext:
    """A context that the model has read. Mixtures are in units of z-scored y."""

    def __init__(self, predictor: Predictor, x: Array, y: Array, is_categorical: Array | None):
        self.model, self.device, self.dtype = predictor.model, predictor.device, predictor.dtype
        config = self.model.config
        self.table = Table(
            x,
            y,
            is_categorical,
            predictor.rule,
            seasons=predictor.seasons and config.season_column == "phase",
            max_features=config.max_features,
        )
        self.y = self.table.context_y(self.device, self.dtype)[None]  # [1, Nctx]
        cells = self.table.context_cells(self.device, self.dtype)
        self.state = self.model.row_encoder.fit(cells, self.y)
        self.rows = self.model.row_encoder.encode(self.state, cells)  # [1, Nctx, D]

    def scale_y(self, y: Array) -> Tensor:
        """In float64, whatever the model computes in."""
        return self.table.scale_y(y, self.device, torch.float64)

    def encode(self, x: Array) -> Tensor:
        """[R, F] -> [R, D]."""
        cells = self.table.cells(x, self.device, self.dtype)
        return self.model.row_encoder.encode(self.state, cells)[0]

    def alone(self, rows: Tensor) -> Mixture:
        """Each of the encoded rows [T, D] given the context alone: [T, M]."""
        nothing = torch.zeros(len(rows), dtype=torch.long, device=self.device)
        rows = rows[None]
        mixture = self.model.trunk(
            self.rows, self.y, rows[:, :0], self.y[:, :0], rows, nothing
        )
        return Mixture(*(part[0] for part in mixture))

    def along(self, rows: Tensor, y: Tensor) -> Mixture:
        """Each of the encoded rows [B, T, D] given the context and the rows before it, whose y
        [B, T] are z-scored: [B, T, M]."""
        count, capacity = y.shape[1], self.model.config.buffer_size
        if count > capacity:
            raise ValueError(f"{count} targets; the model's buffer holds {capacity}")
        prefixes = torch.arange(count, device=self.device)
        return self.model.trunk(self.rows, self.y, rows, y.to(self.dtype), rows, prefixes)


class Predictor:
    """All results are in the units of the y given; densities carry the Jacobian."""

    def __init__(
        self,
        folder: str | Path,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        rule: ScalingRule = RULE,
        *,
        seasons: bool = True,  # False: not told of one, as a context registered with SEASONS_OFF
    ):
        self.device, self.dtype, self.rule = torch.device(device), dtype, rule
        self.seasons = seasons
        self.model = load_model(folder, dtype).to(self.device)

    @torch.inference_mode()
    def encode(
        self,
        context_x: Array,  # [Nctx, F], NaN is missing
        context_y: Array,  # [Nctx]
        is_categorical: Array | None = None,  # [F] bool
    ) -> EncodedContext:
        return EncodedContext(self, context_x, context_y, is_categorical)

    @torch.inference_mode()
    def mixture(
        self,
        context_x: Array,  # [Nctx, F], NaN is missing
        context_y: Array,  # [Nctx]
        target_x: Array,  # [T, F]
        is_categorical: Array | None = None,  # [F] bool
    ) -> tuple[Array, Array, Array]:
        """Weight, mean and standard deviation of M components, each [T, M]; targets independent."""
        context = self.encode(context_x, context_y, is_categorical)
        pieces = [
            context.alone(context.encode(target_x[begin : begin + TARGETS_AT_ONCE]))
            for begin in range(0, len(target_x), TARGETS_AT_ONCE)
        ]
        log_weight, mean, std = (torch.cat(part) for part in zip(*pieces))
        table = context.table
        return (
            torch.exp(log_weight).cpu().numpy(),
            (mean * table.y_std + table.y_mean).cpu().numpy(),
            (std * table.y_std).cpu().numpy(),
        )

    @torch.inference_mode()
    def joint_log_density(
        self,
        context_x: Array,  # [Nctx, F]
        context_y: Array,  # [Nctx]
        target_x: Array,  # [T, F], T <= K
        target_y: Array,  # [T]
        orders: Array,  # [R, T], each a permutation of the targets
        is_categorical: Array | None = None,
    ) -> Array:  # [R]
        """The joint log-density of the targets, each given those before it, in each order."""
        orders = np.atleast_2d(np.asarray(orders, dtype=np.int64))
        context = self.encode(context_x, context_y, is_categorical)
        rows, y = context.encode(target_x), context.scale_y(target_y)
        totals = [
            context.along(rows[order], y[order]).log_density(y[order]).sum(dim=1)
            for order in torch.from_numpy(orders).to(self.device).split(ORDERS_AT_ONCE)
        ]
        return torch.cat(totals).cpu().numpy() - orders.shape[1] * np.log(context.table.y_std)
