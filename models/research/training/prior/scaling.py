"""z-scoring over the context, as the server does it (see engine/data/feature_transform.h): what lies
far outside the bulk of a column is drawn in first, so that a few cells do not set its scale."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from models.research.training.row_encoders.cells import Cells


class ScalingRule(NamedTuple):
    """How far from its median, in robust deviations, a value stays as it is. The server knows only
    the default; others are for comparisons."""

    features: float = 8.0
    # Of the target, one value in so many, and always a single one, may be an error. It is one if it
    # is more than `target_gap` times as far from the median as what it is then brought back to: the
    # farthest of the others, but at least `target`. So heavy tails stay as they are, and with them
    # the sums of what is predicted.
    target: float = 2.0
    target_gap: float = 30.0
    target_errors: int = 50
    target_agree: float = 5.0
    target_tail: float = 0.0  # how much of the logarithm of its distance beyond that it keeps
    # Columns that are constant over the context tell nothing, whatever other rows have there.
    drop_constant: bool = True

    @classmethod
    def squashing(cls, features: float, target: float, errors: int = 1) -> ScalingRule:
        """The target's values are drawn in like the features', all or only one in so many."""
        return cls(
            features,
            target,
            target_gap=0.0,
            target_errors=errors,
            target_agree=1.0,
            target_tail=1.0,
        )


RULE = ScalingRule()
# Mean and standard deviation of all cells as they are.
PLAIN = ScalingRule(float("inf"), float("inf"), drop_constant=False)


def masked_statistics(x: Tensor, valid: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (1/n) over what is valid; 0 and 1 for nothing. Where all is
    equal, its magnitude stands for the deviation, or 1 for zeros. Keeps the dimension."""
    count = valid.sum(dim=dim, keepdim=True)
    divisor = count.clamp(min=1)
    filled = torch.where(valid, x, 0)
    mean = filled.sum(dim=dim, keepdim=True) / divisor
    centred = torch.where(valid, x - mean, 0)
    std = (centred.square().sum(dim=dim, keepdim=True) / divisor).sqrt()
    if x.dtype == torch.float64:  # squares of a user's numbers may be beyond it, but not the root
        most = centred.abs().amax(dim=dim, keepdim=True)
        relative = (centred / most).square().sum(dim=dim, keepdim=True) / divisor
        std = torch.where(torch.isinf(std), most * relative.sqrt(), std)
    infinity = float("inf")
    low = torch.where(valid, x, infinity).amin(dim=dim, keepdim=True)
    high = torch.where(valid, x, -infinity).amax(dim=dim, keepdim=True)
    equal = (high <= low) | (std == 0)
    mean = torch.where(equal & (count > 0), low, mean)
    magnitude = torch.where(mean == 0, 1.0, mean.abs())
    return mean, torch.where(equal, magnitude, std)


class Bulk(NamedTuple):
    """Where most cells of each column lie. All but `ordered` keep the dimension of the rows."""

    ordered: Tensor  # [..., N] by size, rows moved to the end; infinities for what is missing
    count: Tensor  # of the cells that are not missing
    low: Tensor  # the centre: a number, or with the atoms an interval
    high: Tensor
    scale: Tensor  # the robust deviation; infinity where nothing lies far outside
    constant: Tensor  # all cells are equal, or there are none
    all_but_constant: Tensor  # not all are equal, but 99 of 100 are
    median: Tensor
    has_atom: Tensor  # the quartiles are equal: at least half of the cells are the median

    def distance(self, x: Tensor) -> Tensor:
        """From the centre, in robust deviations."""
        beyond = torch.where(x > self.high, x - self.high, torch.where(x < self.low, self.low - x, 0))
        return (beyond / self.scale).clamp(max=torch.finfo(x.dtype).max)


def _quantile(ordered: Tensor, count: Tensor, quarters: int) -> Tensor:
    """Linear between the two cells next to it."""
    last = (count - 1).clamp(min=0)
    steps = quarters * last
    low = ordered.gather(-1, steps // 4)
    high = ordered.gather(-1, torch.minimum(steps // 4 + 1, last))
    return low + (high - low) * ((steps % 4).to(ordered.dtype) / 4)


MOST_ATOMS = 3  # that are set aside to see the others' scale


def _without(ordered: Tensor, count: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted numbers less those that equal a value [..., 1], and how many are left."""
    equal = ordered == value
    left = torch.where(equal, float("inf"), ordered).sort(dim=-1).values
    return left, count - equal.sum(dim=-1, keepdim=True)


def find_bulk(x: Tensor, dim: int) -> Bulk:
    """Of columns whose rows are along `dim`; NaN is missing.

    The centre is the median, the scale the interquartile range / 1.349. Where the quartiles are
    equal, at least half of the cells are the median, an atom: then the scale is that of the cells
    that differ from it, and the centre reaches from the atom to their median. Where their quartiles
    are equal as well, that is done again, for up to three atoms. Of what then still has equal
    quartiles, or has one value only, nothing lies far outside.
    """
    valid = ~torch.isnan(x)
    ordered = torch.where(valid, x, float("inf")).movedim(dim, -1).contiguous().sort(dim=-1).values
    count = valid.sum(dim=dim, keepdim=True).movedim(dim, -1)
    last = ordered.gather(-1, (count - 1).clamp(min=0))
    constant = (count == 0) | (ordered[..., :1] == last)
    median = torch.where(count > 0, _quantile(ordered, count, 2), 0)
    low, high, scale = median, median, torch.full_like(median, float("inf"))
    numbers, left, sought = ordered, count, ~constant
    for _ in range(MOST_ATOMS + 1):
        middle = _quantile(numbers, left, 2)
        spread = _quantile(numbers, left, 3) - _quantile(numbers, left, 1)
        several = numbers[..., :1] != numbers.gather(-1, (left - 1).clamp(min=0))
        sought = sought & (left > 0) & several
        low, high = (
            torch.where(sought, torch.minimum(low, middle), low),
            torch.where(sought, torch.maximum(high, middle), high),
        )
        scale = torch.where(sought & (spread > 0), spread / 1.349, scale)
        sought = sought & ~(spread > 0)
        numbers, left = _without(numbers, left, middle)
    equal = (ordered == median).sum(dim=-1, keepdim=True)
    has_atom = ~constant & (_quantile(ordered, count, 3) == _quantile(ordered, count, 1))
    all_but_constant = has_atom & (equal >= 99 * count // 100)
    stats = (count, low, high, scale, constant, all_but_constant, median, has_atom)
    return Bulk(ordered, *(part.movedim(-1, dim) for part in stats))


def squash(x: Tensor, bulk: Bulk, most: float | Tensor, tail: float = 1.0) -> Tensor:
    """Beyond `most` robust deviations from the centre the distance grows as its logarithm."""
    z = bulk.distance(x)
    drawn_in = bulk.scale * (most + tail * torch.log1p((z - most).clamp(min=0)))
    drawn_in = torch.where(x > bulk.high, bulk.high + drawn_in, bulk.low - drawn_in)
    return torch.where(z > most, drawn_in, x)


def nearest(x: Tensor, bulk: Bulk, dim: int) -> Tensor:
    """For each number the next value that its column has; of two, the smaller."""
    x = x.movedim(dim, -1).contiguous()
    count = bulk.count.movedim(dim, -1)
    last = (count - 1).clamp(min=0)
    above = torch.searchsorted(bulk.ordered, x)
    high = bulk.ordered.gather(-1, torch.minimum(above, last))
    low = bulk.ordered.gather(-1, torch.minimum((above - 1).clamp(min=0), last))
    found = torch.where(x - low <= high - x, low, high)
    return torch.where(torch.isnan(x) | (count == 0), x, found).movedim(-1, dim)


class ColumnScaling(NamedTuple):
    """Of the columns of a context; all but `context` and `rule` is [..., 1, F], or a Bulk."""

    context: Tensor  # [..., N, F] the context's cells, drawn in and z-scored; 0 where missing
    rule: ScalingRule
    bulk: Bulk
    mean: Tensor
    std: Tensor
    says_nothing: Tensor  # no cell, or all equal and none missing
    snaps: Tensor  # numeric, and one value but for a few cells, or but for missing ones

    @classmethod
    def fit(cls, x: Tensor, categorical: Tensor, rule: ScalingRule = RULE) -> ColumnScaling:
        """x [..., N, F], NaN is missing; categorical [..., F]."""
        bulk = find_bulk(x, -2)
        inside = squash(x, bulk, rule.features)
        missing = torch.isnan(x)
        mean, std = masked_statistics(inside, ~missing, dim=-2)
        # An atom makes the deviation small, and the others' cells lie far out: they set the scale.
        _, of_others = masked_statistics(inside, ~missing & (x != bulk.median), dim=-2)
        has_others = bulk.has_atom & torch.isfinite(bulk.scale)
        std = torch.where(has_others, torch.maximum(std, of_others), std)
        complete = (bulk.count == x.shape[-2]) | (bulk.count == 0)
        nothing = bulk.constant & complete & rule.drop_constant
        snaps = (bulk.all_but_constant | bulk.constant) & ~categorical[..., None, :]
        context = torch.where(missing | nothing, 0.0, (inside - mean) / std)
        return cls(context, rule, bulk, mean, std, nothing, snaps & rule.drop_constant)

    def values(self, x: Tensor) -> Tensor:
        """Cells [..., R, F] of other rows; 0 where missing."""
        x = torch.where(self.snaps, nearest(x, self.bulk, -2), x)
        value = (squash(x, self.bulk, self.rule.features) - self.mean) / self.std
        return torch.where(torch.isnan(x) | self.says_nothing, 0.0, value)


def target_limit(y: Tensor, bulk: Bulk, rule: ScalingRule) -> Tensor:
    """[..., 1]: beyond how many robust deviations values of y [..., N] are drawn in."""
    rows = y.shape[-1]
    z = bulk.distance(y)
    errors = min(max(1, rows // rule.target_errors), rows - 1)
    far = z.topk(errors + 1, dim=-1).values
    limit, out = far[..., 1:].clamp(min=rule.target), far[..., :-1]
    wrong = (out > rule.target) & (out > rule.target_gap * limit)
    # Three far values that agree are a part of the target. Beside an atom so are two, and only one or two are errors.
    agree = [far[..., : errors + 1 - size] <= rule.target_agree * far[..., size - 1 : errors] for size in (2, 3)]
    of_two, of_three = (
        torch.nn.functional.pad(each, (errors - each.shape[-1], 0)).cummax(-1).values for each in agree
    )
    few = torch.arange(errors, device=y.device) < 2
    wrong &= torch.where(bulk.has_atom, few & ~of_two, ~of_three)
    if rule.target_gap == 0:  # no more than so many beyond it
        wrong &= limit == rule.target
    limit = torch.where(wrong, limit, float("inf"))
    nowhere = torch.full_like(bulk.low, float("inf"))
    return torch.cat([limit, nowhere], dim=-1).amin(dim=-1, keepdim=True)


class TargetScaling(NamedTuple):
    """Of the values of a context; mean and std are [..., 1]."""

    context: Tensor  # [..., N] the context's values, drawn in and z-scored
    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, y: Tensor, rule: ScalingRule = RULE) -> TargetScaling:
        """y [..., N]."""
        bulk = find_bulk(y, -1)
        inside = squash(y, bulk, target_limit(y, bulk, rule), rule.target_tail)
        mean, std = masked_statistics(inside, torch.ones_like(inside, dtype=torch.bool), dim=-1)
        return cls((inside - mean) / std, mean, std)

    def values(self, y: Tensor) -> Tensor:
        """Of other rows: what is known of them, and what is asked for, is shifted and scaled only."""
        return (y - self.mean) / self.std


def dictionary_places(x: Tensor, categorical: Tensor, context: int, most: int) -> Tensor:
    """Replaces the codes of categorical columns by their places in the sorted dictionary of those
    that occur in the context; a code that does not occur becomes NaN. Codes are in [0, most)."""
    b, rows, f = x.shape
    columns = x.transpose(1, 2)  # [b, f, R]
    code = torch.nan_to_num(columns, nan=0.0).clamp(0, most - 1).long()
    known = ~torch.isnan(columns)
    occurs = torch.zeros(b, f, most, device=x.device)
    occurs.scatter_add_(2, code[:, :, :context], known[:, :, :context].float())
    occurs = (occurs > 0).long()
    place = occurs.cumsum(dim=-1) - 1
    found = known & (occurs.gather(2, code) > 0)
    places = torch.where(found, place.gather(2, code).to(x.dtype), float("nan")).transpose(1, 2)
    return torch.where(categorical[:, None, :], places, x)


def scale_cells(x: Tensor, categorical: Tensor, context: int) -> Cells:
    """x [b, R, f] with the context's rows first; NaN is missing. A column that says nothing cannot
    be left out of a batch: it is 0 in all rows, missing where the context has no cell of it."""
    scaling = ColumnScaling.fit(x[:, :context], categorical)
    value = torch.cat([scaling.context, scaling.values(x[:, context:])], dim=1)
    missing = torch.where(scaling.says_nothing, scaling.bulk.count == 0, torch.isnan(x))
    return Cells(value.float(), missing, categorical)


def scale_target(y: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """y [b, R] z-scored over the context, float32, and the standard deviation used, [b, 1]."""
    scaling = TargetScaling.fit(y[:, :context])
    values = torch.cat([scaling.context, scaling.values(y[:, context:])], dim=1)
    return values.float(), scaling.std
