"""The rules of scaling that are compared; the first is what all others are measured against."""

from __future__ import annotations

from models.research.training.prior.scaling import PLAIN, RULE, ScalingRule

NEVER = float("inf")
BEFORE, NOW = "as it is", "x 8, y gap 30"

_squashing = ScalingRule.squashing

# x: beyond how many robust deviations features are drawn in. y: the same of the target; "few": only
# where one value of y in 50, or a single one, lies outside. "gap": RULE, with that gap; "far": what
# is drawn in keeps the logarithm of its distance.
RULES: dict[str, ScalingRule] = {BEFORE: PLAIN, "constant columns only": _squashing(NEVER, NEVER)}
RULES |= {f"x {x:.0f}": _squashing(x, NEVER) for x in (5.0, 8.0, 12.0, 20.0)}
RULES |= {f"x 8, y {y:.0f}": _squashing(8.0, y) for y in (5.0, 8.0, 12.0, 20.0)}
RULES |= {f"x 8, y {y:.0f} few": _squashing(8.0, y, 50) for y in (5.0, 12.0, 20.0)}
RULES |= {f"x 8, y gap {gap:.0f}": RULE._replace(target_gap=gap) for gap in (10.0, 30.0, 100.0)}
RULES |= {"x 8, y gap 30 far": RULE._replace(target_tail=1.0)}
