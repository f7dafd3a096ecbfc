"""The rules of scaling that are compared; the first is what all others are measured against."""

from __future__ import annotations

from models.research.training.prior.scaling import PLAIN, ScalingRule

NEVER = float("inf")
BEFORE = "as it is"

# x: beyond how many robust deviations features are drawn in; y: the same of the target; "few":
# only where at most one value of y or 2 % of them lie outside.
RULES: dict[str, ScalingRule] = {BEFORE: PLAIN}
RULES |= {f"x {x:.0f}, y {y:.0f}": ScalingRule(x, y) for x in (5.0, 8.0, 12.0) for y in (5.0, 8.0, 12.0)}
RULES |= {"x 8, y 20": ScalingRule(8.0, 20.0), "x 8, y never": ScalingRule(8.0, NEVER)}
RULES |= {f"x 8, y {y:.0f} few": ScalingRule(8.0, y, 0.02) for y in (5.0, 8.0, 12.0, 20.0)}
