"""Scores under several rules of scaling as a Markdown page."""

from __future__ import annotations

import numpy as np

from models.research.evaluate import heavy_tails
from models.research.evaluate.corruption_rules import BEFORE, NOW, RULES
from models.research.evaluate.damage import DAMAGES
from models.research.evaluate.report import _markdown

Means = dict[str, dict[str, dict[str, np.ndarray]]]  # cell, damage, rule -> [draws, scores]
_HEAVY_SCORES = (
    ("log_density", "log-density"),
    ("crps", "CRPS"),
    ("rmse", "error of the predicted means, against the true ones"),
    ("bias_of_sum", "bias of the sum of the predicted means in %, mean and standard error (root mean square)"),
)
WORSE = 0.01  # nat: what no cell may lose where nothing is damaged


def _arrays(found: dict) -> Means:
    return {
        cell: {d: {r: np.array(rows) for r, rows in by_rule.items()} for d, by_rule in by_damage.items()}
        for cell, by_damage in found.items()
    }


def _clean(tables: Means, at: dict[str, int]) -> str:
    """All tables as they are, and what the worst cell loses."""
    rows = []
    for rule in RULES:
        means = {cell: by["clean"][rule].mean(axis=0) for cell, by in tables.items()}
        change = {
            cell: means[cell] - by["clean"][BEFORE].mean(axis=0) for cell, by in tables.items()
        }
        worst = min(change, key=lambda cell: change[cell][at["log_density"]])
        row = [rule]
        row += [f"{np.mean([m[at[s]] for m in means.values()]):.4f}" for s in ("log_density", "crps", "rmse", "bias")]
        paired = tables[worst]["clean"]
        error = (paired[rule] - paired[BEFORE])[:, at["log_density"]].std() / len(paired[rule]) ** 0.5
        row.append(
            f"{change[worst][at['log_density']]:+.4f} ± {error:.4f} ({worst.removeprefix('tables/')})"
        )
        row.append(str(sum(c[at["log_density"]] < -WORSE for c in change.values())))
        row.append(str(sum(c[at["log_density"]] > WORSE for c in change.values())))
        for name in ("crps", "rmse"):
            ratio = [
                m[at[name]] / tables[cell]["clean"][BEFORE].mean(axis=0)[at[name]] - 1
                for cell, m in means.items()
            ]
            row.append(f"{100 * max(ratio):+.1f} %")
        rows.append(row)
    heading = ["rule", "log-density", "CRPS", "RMSE", "bias", "worst cell", "worse", "better"]
    return _markdown([*heading, "worst CRPS", "worst RMSE"], rows)


def _damaged(tables: Means, at: dict[str, int], score: str) -> str:
    """The mean over cells for each damage; in brackets, against the same rule's clean figure."""
    rows = []
    for rule in RULES:
        row = [rule]
        mean = {
            damage: np.mean([by[damage][rule].mean(axis=0)[at[score]] for by in tables.values()])
            for damage in DAMAGES
        }
        for damage in DAMAGES:
            if damage == "clean":
                row.append(f"{mean[damage]:.4f}")
            elif score == "log_density":
                row.append(f"{mean[damage]:.4f} ({mean[damage] - mean['clean']:+.3f})")
            else:
                row.append(f"{mean[damage]:.4f} ({100 * (mean[damage] / mean['clean'] - 1):+.1f} %)")
        rows.append(row)
    return _markdown(["rule", *DAMAGES], rows)


def _by_size(tables: Means, at: dict[str, int], score: str, rules: tuple[str, ...]) -> str:
    """What each damage costs at each context size, against the same rule's clean figure."""
    rows = []
    for size in dict.fromkeys(cell.rsplit("/", 1)[1] for cell in tables):
        some = [by for cell, by in tables.items() if cell.endswith(f"/{size}")]
        for rule in rules:
            mean = {d: np.mean([by[d][rule].mean(axis=0)[at[score]] for by in some]) for d in DAMAGES}
            row = [size, rule, f"{mean['clean']:.4f}"]
            for damage in DAMAGES:
                if damage != "clean" and score == "log_density":
                    row.append(f"{mean[damage] - mean['clean']:+.4f}")
                elif damage != "clean":
                    row.append(f"{100 * (mean[damage] / mean['clean'] - 1):+.2f} %")
            rows.append(row)
    return _markdown(["context", "rule", *DAMAGES], rows)


def _heavy(heavy: Means, at: dict[str, int], where: str, score: str) -> str:
    """For each kind of tail, draws of all sizes from 64 rows together."""
    heavy = {cell: by for cell, by in heavy.items() if not cell.endswith("/16")}
    there = {cell.split("/")[1] for cell in heavy}
    kinds = [kind for kind in heavy_tails.KINDS if kind.startswith(where) and kind in there]
    rows = []
    for rule in RULES:
        row = [rule]
        for kind in kinds:
            some = [by["clean"] for cell, by in heavy.items() if f"/{kind}/" in cell]
            one, other = (np.concatenate([by[r][:, at[score]] for by in some]) for r in (rule, BEFORE))
            if score == "log_density":
                row.append(f"{np.median(one - other):+.3f}")
            elif score == "bias_of_sum":
                error = one.std(ddof=1) / np.sqrt(len(one))
                row.append(f"{100 * one.mean():+.1f} ± {100 * error:.1f} ({100 * np.sqrt((one**2).mean()):.0f})")
            else:
                row.append(f"{100 * (np.median(one / other) - 1):+.1f} %")
        rows.append(row)
    return _markdown(["rule", *(kind.split(": ")[1] for kind in kinds)], rows)


def _cells(tables: Means, at: dict[str, int], rule: str) -> str:
    names = ("log_density", "crps", "rmse")
    rows = []
    for cell, by in tables.items():
        row = cell.removeprefix("tables/").split("/")
        for damage in ("clean", "x -9999", "one y"):
            one, other = (by[damage][r].mean(axis=0) for r in (rule, BEFORE))
            row += [f"{other[at[s]]:.3f} {one[at[s]]:.3f}" for s in names]
        rows.append(row)
    heading = ["table", "context"]
    for damage in ("clean", "x -9999", "one y"):
        heading += [f"{damage}: log-density", "CRPS", "RMSE"]
    return _markdown(heading, rows)


def page(found: dict, scores: tuple[str, ...], rule: str = NOW) -> str:
    """`rule` is the one that is shown cell by cell."""
    at = {name: i for i, name in enumerate(scores)}
    arrays = _arrays(found)
    tables = {cell: by for cell, by in arrays.items() if cell.startswith("tables/")}
    heavy = {cell: by for cell, by in arrays.items() if cell.startswith("heavy/")}
    lines = ["# Scaling columns by their bulk", ""]
    if tables:
        lines += ["## Tables as they are", "", _clean(tables, at), ""]
        for score, title in (("log_density", "Log-density"), ("crps", "CRPS"), ("rmse", "RMSE")):
            lines += [f"## {title}, damaged", "", _damaged(tables, at, score), ""]
            lines += [_by_size(tables, at, score, (BEFORE, rule)), ""]
    if heavy:
        lines += ["## Heavy tails", "", f'64 to 1024 rows; medians over draws, against "{BEFORE}".', ""]
        for where, title in (("x", "features"), ("y", "target"), ("both", "features and target")):
            for score, name in _HEAVY_SCORES:
                lines += [f"Of the {title}: {name}", "", _heavy(heavy, at, where, score), ""]
    if tables:
        lines += [f'## Cell by cell: "{BEFORE}", then "{rule}"', "", _cells(tables, at, rule), ""]
    return "\n".join(lines)
