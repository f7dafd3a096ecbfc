"""The evaluation as a Markdown page."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.stats import rankdata

from models.research.evaluate import protocol, scores, series, synthetic, tables
from models.research.evaluate.cells import Cell
from models.research.evaluate.score_cache import Columns

Results = dict[Cell, dict[str, Columns]]  # scores of each method on each cell

MODEL = "chorale"
# Score, heading, and whether larger is better.
RANKED = (("log_density", "Log-density", True), ("crps", "CRPS", False), ("rmse", "RMSE", False))


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over draws or cells and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values) -> Estimate:
        """From independent values."""
        values = np.asarray(values, dtype=np.float64)
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        return cls(float(values.mean()), float(error))

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f}"


def _markdown(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _of_part(results: Results, part: str) -> Results:
    return {cell: methods for cell, methods in results.items() if cell.part == part}


def _method_names(results: Results) -> list[str]:
    """In the order in which they first occur, the model first."""
    names = dict.fromkeys(name for methods in results.values() for name in methods)
    return sorted(names, key=lambda name: name != MODEL)


def ranks(results: Results, score: str, larger_is_better: bool) -> dict[str, np.ndarray]:
    """Rank of each method in each cell, by the mean over draws; 1 is best, ties share."""
    names = _method_names(results)
    means = np.array(
        [[np.mean(methods[name][score]) for name in names] for methods in results.values()]
    )
    ranked = rankdata(-means if larger_is_better else means, axis=1)
    return {name: ranked[:, i] for i, name in enumerate(names)}


def _rank_section(results: Results) -> str:
    by_score = {score: ranks(results, score, larger) for score, _, larger in RANKED}
    rows = []
    for name in _method_names(results):
        row = [name]
        for score, _, _ in RANKED:
            places = by_score[score][name]
            row.append(f"{places.mean():.2f} ({int((places == 1).sum())})")
        rows.append(row)
    rows.sort(key=lambda row: float(row[1].split()[0]))
    return (
        f"Mean rank over {len(results)} (table, context size) cells; in brackets, in how many of "
        "them the method is best.\n\n"
        + _markdown(["method", *(heading for _, heading, _ in RANKED)], rows)
    )


def _coverage_section(results: Results) -> str:
    sizes = [*map(str, protocol.FIXED_SIZES), protocol.ALL]
    rows = []
    for name in _method_names(results):
        row = [name]
        for level in ("cover_50", "cover_90"):
            by_size = {
                size: [
                    np.mean(methods[name][level])
                    for cell, methods in results.items()
                    if cell.size == size
                ]
                for size in sizes
            }
            every = [value for values in by_size.values() for value in values]
            row.append(f"**{np.mean(every):.1%}**")
            row += [f"{np.mean(by_size[size]):.1%}" if by_size[size] else "" for size in sizes]
        rows.append(row)
    heading = ["method"] + [
        f"{level} %, {size}" for level in (50, 90) for size in ("together", *sizes)
    ]
    return _markdown(heading, rows)


def _table_section(results: Results, score: str, larger_is_better: bool) -> str:
    names = _method_names(results)
    rows = []
    for cell, methods in results.items():
        means = np.array([np.mean(methods[name][score]) for name in names])
        best = means.argmax() if larger_is_better else means.argmin()
        shown = [f"**{mean:.3f}**" if i == best else f"{mean:.3f}" for i, mean in enumerate(means)]
        rows.append([cell.name, cell.size, *shown])
    return _markdown(["table", "context", *names], rows)


def _gain(columns: Columns, joint: str, independent: str) -> np.ndarray:
    """[draws] what the buffer adds to the log-density, per target."""
    return np.array(columns[joint]) - np.array(columns[independent])


def _joint_section(results: Results) -> str:
    rows = []
    for cell, methods in results.items():
        columns, row = methods[MODEL], [cell.name, cell.size]
        for size in protocol.BLOCK_SIZES:
            if f"joint_{size}" not in columns:
                row += [""] * 4
                continue
            row.append(f"{np.mean(columns[f'independent_{size}']):.3f}")
            row += [
                str(Estimate.of(_gain(columns, f"{kind}_{size}", f"independent_{size}")))
                for kind in ("joint", "mixed")
            ]
        rows.append(row)
    heading = ["table", "context"]
    for size in protocol.BLOCK_SIZES:
        heading += [f"independent, {size}", "gain, mean over orders", "gain, log-mean-exp"]
    return _markdown(heading, rows)


def _by_size(results: Results) -> dict[str, Results]:
    """Cells of each context size, small sizes first."""
    sizes = sorted({cell.size for cell in results}, key=int)
    return {size: {cell: m for cell, m in results.items() if cell.size == size} for size in sizes}


def _known_truth_row(label: str, cells: Results, size: int) -> list[str]:
    """Densities per target of a group of cells, and the model's gaps, paired by draw."""

    def pooled(method: str, score: str) -> np.ndarray:
        return np.concatenate([methods[method][score] for methods in cells.values()])

    exact = pooled("exact", f"joint_{size}")
    row = [
        label,
        f"{exact.mean():.3f}",
        str(Estimate.of(pooled("fitted", f"joint_{size}") - exact)),
    ]
    if all(MODEL in methods for methods in cells.values()):
        joint, alone = pooled(MODEL, f"joint_{size}"), pooled(MODEL, f"independent_{size}")
        row += [
            str(Estimate.of(joint - exact)),
            f"{(joint - exact).min():.1f}",
            str(Estimate.of(joint - alone)),
            str(Estimate.of(alone - pooled("exact", f"independent_{size}"))),
        ]
    else:
        row += [""] * 3
    return row


def _known_truth_section(results: Results) -> str:
    size = synthetic.TARGETS
    heading = [
        "exact joint",
        "fitted - exact",
        "model - exact",
        "its worst draw",
        "gain of the buffer",
        "model - exact, both independent",
    ]
    overall = [_known_truth_row(name, cells, size) for name, cells in _by_size(results).items()]
    details = [
        _known_truth_row(f"{cell.name}, {cell.size}", {cell: methods}, size)
        for cell, methods in results.items()
    ]
    return (
        _markdown(["context", *heading], overall)
        + "\n\nEach process:\n\n"
        + _markdown(["process, context", *heading], details)
    )


def _series_section(results: Results) -> str:
    names, size, rows = _method_names(results), series.TARGETS, []
    for cell, methods in results.items():
        row = [cell.name, cell.size]
        for name in names:
            joint, alone = f"joint_{size}", f"independent_{size}"
            row += [
                f"{np.mean(methods[name][alone]):.3f}",
                str(Estimate.of(_gain(methods[name], joint, alone))),
                f"{np.mean(methods[name]['crps']):.3f}",
            ]
        rows.append(row)
    heading = ["series", "context"]
    for name in names:
        heading += [f"{name}: independent", "gain of joint", "CRPS"]
    return _markdown(heading, rows)


def _sources_section(results: Results) -> str:
    rows = []
    for name in dict.fromkeys(cell.name for cell in results):
        table, source = tables.load(name), tables.SOURCES[name]
        rows.append(
            [
                name,
                source.target,
                str(len(table.y)),
                str(table.x.shape[1]),
                str(int(table.is_categorical.sum())),
                str(int(np.isnan(table.x).sum())),
                source.origin,
                source.licence,
            ]
        )
    return _markdown(
        [
            "table",
            "target",
            "rows",
            "features",
            "categorical",
            "missing cells",
            "source",
            "licence",
        ],
        rows,
    )


def _table_sections(results: Results) -> list[str]:
    page = [
        "## Real tables",
        "Densities and errors are in units of y z-scored over the whole table. Targets are the same "
        "for all context sizes of a draw and for all methods; at most "
        f'{protocol.TARGETS} a draw. "all" is all other rows, at most {protocol.MAX_CONTEXT}.',
        _rank_section(results),
        "### Coverage\n\nShare of targets inside the central intervals, mean over cells.",
        _coverage_section(results),
    ]
    for score, heading, larger_is_better in RANKED:
        page += [f"### {heading}", _table_section(results, score, larger_is_better)]
    if all(MODEL in methods for methods in results.values()):
        page += [
            "### Joint densities of the model\n\nPer target, blocks of "
            f"{' and '.join(map(str, protocol.BLOCK_SIZES))} targets, {scores.ORDERS} random "
            "orders; gains over independent targets, ± standard error over draws.",
            _joint_section(results),
        ]
    return page + ["### Sources", _sources_section(results)]


_TRUTH = (
    'Log-densities per target of blocks of 16. "exact" knows the process and its hyperparameters; '
    '"fitted" knows its family and fits them to the context by marginal likelihood, each within a '
    "factor of ten of the truth. "
    "± standard error over draws."
)


def _model_gap(cells: Results, other: str, score: str) -> str:
    """Joint density of the model less a score of another method (or its own), by context size."""
    found = []
    for size, of_size in _by_size(cells).items():
        joint = np.concatenate([m[MODEL][f"joint_{synthetic.TARGETS}"] for m in of_size.values()])
        against = np.concatenate([m[other][score] for m in of_size.values()])
        found.append(f"{Estimate.of(joint - against)} ({size})")
    return ", ".join(found)


def _summary(parts: dict[str, Results]) -> str:
    """The model's main figures in a few lines."""
    lines, block = [], synthetic.TARGETS
    if parts["tables"]:
        places = [
            f"{ranks(parts['tables'], score, larger)[MODEL].mean():.2f} ({heading})"
            for score, heading, larger in RANKED
        ]
        lines.append(
            f"- mean rank among {len(_method_names(parts['tables']))} methods on real tables: "
            + ", ".join(places)
        )
        covered = [
            np.mean([np.mean(m[MODEL][f"cover_{level}"]) for m in parts["tables"].values()])
            for level in (50, 90)
        ]
        lines.append(
            f"- central 50 % intervals cover {covered[0]:.1%}, 90 % intervals {covered[1]:.1%}"
        )
    if parts["gp"]:
        lines.append(
            "- Gaussian-process data, joint density per target less the exact one, by context "
            f"rows: {_model_gap(parts['gp'], 'exact', f'joint_{block}')}"
        )
    if parts["forecast"]:
        lines.append(
            "- forecasting, joint density per target less that of independent targets: "
            f"{_model_gap(parts['forecast'], MODEL, f'independent_{block}')}"
        )
    return "\n".join(lines)


def page(results: Results, title: str) -> str:
    """The whole report."""
    found = [f"# {title}"]
    parts = {part: _of_part(results, part) for part in ("tables", "gp", "forecast", "series")}
    if all(MODEL in methods for methods in results.values()):
        found.append(_summary(parts))
    if parts["tables"]:
        found += _table_sections(parts["tables"])
    if parts["gp"]:
        found += ["## Gaussian-process data\n\n" + _TRUTH, _known_truth_section(parts["gp"])]
    if parts["forecast"]:
        found += [
            "## Forecasting, known truth\n\nThe next 16 values of a series, in time order. "
            + _TRUTH,
            _known_truth_section(parts["forecast"]),
        ]
    if parts["series"]:
        found += [
            "## Forecasting, real series\n\nThe next 16 values, in time order; evenly spaced "
            "windows. Per target, in units of the z-scored series. Windows overlap, so standard errors "
            "are understated.",
            _series_section(parts["series"]),
        ]
    return "\n\n".join(found) + "\n"
