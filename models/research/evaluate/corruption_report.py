"""Scores under several rules of scaling as a Markdown page."""

from __future__ import annotations

import numpy as np

from models.research.evaluate import heavy_tails
from models.research.evaluate.corruption_rules import BEFORE, RULES
from models.research.evaluate.damage import DAMAGES
from models.research.evaluate.report import _markdown

Means = dict[str, dict[str, dict[str, np.ndarray]]]  # cell, damage, rule -> [draws, scores]
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
        row.append(f"{change[worst][at['log_density']]:+.4f} ({worst.removeprefix('tables/')})")
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


def _heavy(heavy: Means, at: dict[str, int], kind: str) -> str:
    """Against the first rule: log-density, CRPS and the error of the means; the bias of sums."""
    sizes = [str(size) for size in heavy_tails.SIZES if f"heavy/{kind}/{size}" in heavy]
    rows = []
    for rule in RULES:
        row = [rule]
        for size in sizes:
            by_rule = heavy[f"heavy/{kind}/{size}"]["clean"]
            one, other = by_rule[rule], by_rule[BEFORE]
            density = one[:, at["log_density"]] - other[:, at["log_density"]]
            crps, rmse = (np.median(one[:, at[s]] / other[:, at[s]]) - 1 for s in ("crps", "rmse"))
            sums = one[:, at["bias_of_sum"]]
            error = sums.std(ddof=1) / np.sqrt(len(sums))
            row.append(
                f"{density.mean():+.3f}, {100 * crps:+.1f} %, {100 * rmse:+.1f} %, "
                f"{100 * sums.mean():+.1f} ± {100 * error:.1f} % ({100 * np.sqrt((sums**2).mean()):.0f})"
            )
        rows.append(row)
    return _markdown(["rule", *(f"{size} rows" for size in sizes)], rows)


def _cells(tables: Means, at: dict[str, int], rule: str) -> str:
    names = ("log_density", "crps", "rmse")
    rows = []
    for cell, by in tables.items():
        row = cell.removeprefix("tables/").split("/")
        for damage in ("clean", "x -9999", "three constant columns", "one y"):
            one, other = (by[damage][r].mean(axis=0) for r in (rule, BEFORE))
            row += [f"{other[at[s]]:.3f} {one[at[s]]:.3f}" for s in names]
        rows.append(row)
    heading = ["table", "context"]
    for damage in ("clean", "x -9999", "constant columns", "one y"):
        heading += [f"{damage}: log-density", "CRPS", "RMSE"]
    return _markdown(heading, rows)


def page(found: dict, scores: tuple[str, ...], rule: str = "x 8, y 5") -> str:
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
        lines += [
            "## Heavy tails",
            "",
            f'Against "{BEFORE}": log-density, CRPS and the error of the predicted means (medians of '
            "draws); then the bias of the sum over all targets, and in brackets its root mean square.",
            "",
        ]
        for kind in heavy_tails.KINDS:
            lines += [f"### {kind}", "", _heavy(heavy, at, kind), ""]
    if tables:
        lines += [f'## Cell by cell: "{BEFORE}", then "{rule}"', "", _cells(tables, at, rule), ""]
    return "\n".join(lines)
