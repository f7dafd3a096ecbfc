"""The rules of scaling that are compared; the first is what all others are measured against."""

from __future__ import annotations

from models.research.training.prior.scaling import PLAIN, ScalingRule

NEVER = float("inf")
BEFORE = "as it is"

# x: beyond how many robust deviations features are drawn in; y: the same of the target; "few":
# only where at most one value of y or 2 % of them lie outside; "gap 30": only where they also are 30
# times as far away as the next; "flat": they come to where the next one is.
RULES: dict[str, ScalingRule] = {BEFORE: PLAIN, "constant columns only": ScalingRule(NEVER, NEVER)}
RULES |= {f"x {x:.0f}": ScalingRule(x, NEVER) for x in (5.0, 8.0, 12.0, 20.0)}
RULES |= {f"x 8, y {y:.0f}": ScalingRule(8.0, y) for y in (5.0, 8.0, 12.0, 20.0)}
RULES |= {f"x 8, y {y:.0f} few": ScalingRule(8.0, y, 0.02) for y in (5.0, 12.0, 20.0)}
RULES |= {
    f"x 8, y 5 gap {gap:.0f}": ScalingRule(8.0, 5.0, 0.02, gap) for gap in (10.0, 30.0, 100.0)
}
RULES |= {"x 8, y 5 gap 30 flat": ScalingRule(8.0, 5.0, 0.02, 30.0, 0.0)}
