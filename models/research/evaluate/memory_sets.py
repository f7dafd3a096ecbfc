"""How bounded sets of keys compare with all rows: python3 -m models.research.evaluate.memory_sets.

Of tables with up to 65,536 rows, M rows, or M keys and values per layer and head, stand for the
whole context. Many methods choose them, and all predict the same held-out rows. The program appends
a line of JSON per table, size, seed, M and method to a file and omits the questions that the file
contains already. With --arms, it measures only all rows, random rows, and sets that are filled from
chunks of given sizes and whose keys are merged in given groupings. `memory_report` makes tables of
the lines, and `memory.md` describes the results.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from models.research.evaluate import memory_rows, memory_tables
from models.research.evaluate.memory_chunks import as_kept, fill_in_chunks, measure
from models.research.evaluate.memory_groups import GROUPINGS, Grouping, Groups, within
from models.research.evaluate.memory_model import Kept, Reader, Rows, encode, read_rows
from models.research.evaluate.memory_policies import POLICIES, Chosen, draw, merge
from models.research.evaluate.memory_scores import PATHS, BlockScores, Noise, make_noise, score
from models.research.evaluate.memory_tables import BLOCK, Question
from models.research.training.model import JointModel

SIZES, COUNTS = (2048, 8192, 16_384, 65_536), (256, 512, 1024, 2048)
ASKED = 1024  # R
LOCAL_SHARES = {"local": 1.0, "local_half": 0.5}
# Rows of a chunk, by rows of the context, of sets that are filled chunk by chunk.
CHUNKS = {8192: 2048, 16_384: 2048, 65_536: 8192}
CHUNK_COUNTS = (512, 2048)
CHUNK_POLICIES = (
    "heavy_mass_w", "sample_mass_w", "sample_effect_w", "merge_w", "merge_mean_w", "merge_fit_w",
)  # fmt: skip
ROWS = ("random", "stratified", "stratified_w", "rows_mass", "rows_mass_w", "rows_sample_w")
SEGMENT = 2048  # rows of a chunk of the arms that are named without them
SORTED = "function"  # the table whose chunks come sorted by the first feature as well


class Group(NamedTuple):
    """Scores of several methods, [G, C, ...] for G names and C blocks."""

    names: list[str]
    scores: BlockScores


class Arm(NamedTuple):
    """A set that is filled from chunks of so many rows, its keys merged in a grouping."""

    grouping: str
    chunk: int

    @property
    def name(self) -> str:
        return f"chunks{'' if self.chunk == SEGMENT else self.chunk}_{self.grouping}"


class Watched:
    """A grouping that remembers of its last call what it took, in distances between two of its
    keys, and which share of the variance is left within its groups; means over layers and heads."""

    def __init__(self, grouping: Grouping):
        self.grouping = grouping
        self.distances, self.within = 0.0, 0.0

    def __call__(self, k: Tensor, w: Tensor, count: int, random: torch.Generator) -> Groups:
        groups = self.grouping(k, w, count, random)
        self.distances = groups.distances.mean().item()
        self.within = within(k, w, groups).mean().item()
        return groups


class Experiment:
    """One question, whose whole context has been encoded."""

    def __init__(self, model: JointModel, question: Question, seed: int, paths: int):
        self.model, self.trunk, self.question = model, model.trunk, question
        self.device = model.trunk.ar_tokens.device
        self.layers = len(model.trunk.backbone.layers)
        self.random = torch.Generator(device=self.device).manual_seed(seed)
        self.x, self.y = self.tensor(question.x), self.tensor(question.y)
        self.target_x = self.tensor(question.target_x)
        self.target_y = self.tensor(question.target_y)
        self.categorical = torch.from_numpy(question.categorical).to(self.device)
        components = model.config.num_components
        blocks = len(self.target_y)
        self.noise = make_noise(blocks, paths, components, seed, self.device) if paths else None
        self.rows = self.read(self.x[None], self.y[None], self.target_x[None])
        self.full, context_mass = encode(self.trunk, self.rows.context, self.rows.y, sums=True)
        count = len(self.y)
        ids = torch.arange(count, device=self.device).expand(self.layers, self.trunk.heads, -1)
        self.asked = torch.arange(max(0, count - ASKED), count, device=self.device)
        asked = self.rows.context[0, self.asked]
        scored = measure(self.trunk, self.full, ids, asked, self.asked)
        self.scored = scored._replace(context_mass=context_mass[:, 0].flatten(0, 1))

    def tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device, torch.float64)

    def read(self, x: Tensor, y: Tensor, target_x: Tensor) -> Rows:
        return read_rows(self.model, x, y, target_x, self.categorical)

    def score(self, kept: Kept, rows: Rows, noise: Noise | None) -> BlockScores:
        """Of sets of keys of contexts that have all blocks, or one each."""
        groups, blocks = rows.targets.shape[:2]
        if blocks == len(self.target_y):
            y = self.target_y.expand(groups, -1, -1)
        else:
            y = self.target_y[:, None].repeat(groups // len(self.target_y), 1, 1)
        reader = Reader(self.trunk, kept, rows.targets)
        return score(reader, y, rows.mean, rows.std, noise)

    def all_rows(self) -> Group:
        return Group(["all"], self.score(self.full, self.rows, self.noise))

    def kept(self, count: int, chunk: int, name: str) -> tuple[list[str], list[Chosen]]:
        """Sets of M keys that are chosen once the whole context is encoded and, unless `chunk` is
        0, sets that are filled from chunks of so many rows."""
        names = list(POLICIES)
        chosen = [policy(self.scored, count, self.random) for policy in POLICIES.values()]
        if chunk == 0:
            return names, chosen
        orders = {"chunks": torch.arange(len(self.y), device=self.device)}
        if name == SORTED:
            orders["sorted"] = self.x[:, 0].argsort()
        for kind, order in orders.items():
            for policy in CHUNK_POLICIES:
                names.append(f"{kind}_{policy}")
                chosen.append(
                    fill_in_chunks(
                        self.trunk, self.rows, order, self.asked, chunk, count,
                        POLICIES[policy], self.random,
                    )
                )  # fmt: skip
        return names, chosen

    def rows_anew(self, count: int) -> tuple[Tensor, Tensor]:
        """Of each of ROWS the rows [6, M] that are encoded anew, and their log-weights. Importance
        is the attention received, over all layers and heads; the heaviest rows have as weight how
        many rows of the table are nearest to them."""
        first = torch.arange(count, device=self.device)
        spread, members = memory_rows.stratified(self.rows.cells[0], self.y, count, self.random)
        mass = self.scored.mass.mean(dim=0, keepdim=True)
        heaviest = mass[0].topk(count).indices
        near = memory_rows.members(self.rows.cells[0], heaviest)
        drawn, inverse = draw(mass, torch.zeros_like(mass), count, self.random)
        even = torch.zeros_like(members)
        index = torch.stack([first, spread, spread, heaviest, heaviest, drawn[0]])
        return index, torch.stack([even, even, members, even, near, inverse[0]])

    def shared(self, count: int, chunk: int, name: str) -> Group:
        """Sets that all blocks share: kept keys, and rows that are encoded anew."""
        names, chosen = self.kept(count, chunk, name)
        kept = as_kept(chosen, self.layers)
        index, log_w = self.rows_anew(count)
        target_x = self.target_x.expand(len(index), -1, -1, -1)
        anew = self.read(self.x[index], self.y[index], target_x)
        anew_kept, _ = encode(self.trunk, anew.context, anew.y, log_w.to(anew.y.dtype))
        both = Kept(*(torch.cat(pair, dim=1) for pair in zip(kept, anew_kept, strict=True)))
        methods = len(names)
        rows = anew._replace(
            targets=torch.cat([self.rows.targets.expand(methods, -1, -1, -1), anew.targets]),
            mean=torch.cat([self.rows.mean.expand(methods), anew.mean]),
            std=torch.cat([self.rows.std.expand(methods), anew.std]),
        )
        return Group([*names, *ROWS], self.score(both, rows, self.noise))

    def arms(self, count: int, arms: tuple[Arm, ...]) -> tuple[Group, list[dict[str, float]]]:
        """Random rows that are encoded anew, and the arms, with what each of them took."""
        first = self.read(self.x[None, :count], self.y[None, :count], self.target_x[None])
        random_kept, _ = encode(self.trunk, first.context, first.y)
        order = torch.arange(len(self.y), device=self.device)
        chosen, notes = [], []
        for arm in arms:
            started = time.monotonic()
            watched = Watched(GROUPINGS[arm.grouping])
            policy = functools.partial(merge, groups=watched, weighted=True, mean_key=True)
            found = fill_in_chunks(
                self.trunk, self.rows, order, None, arm.chunk, count, policy, self.random
            )
            chosen.append(found)
            note = {"distances": watched.distances, "within": watched.within}
            notes.append({**note, "seconds": time.monotonic() - started})
        kept = [random_kept, as_kept(chosen, self.layers)]
        both = Kept(*(torch.cat(pair, dim=1) for pair in zip(*kept, strict=True)))
        many = len(arms)
        rows = first._replace(
            targets=torch.cat([first.targets, self.rows.targets.expand(many, -1, -1, -1)]),
            mean=torch.cat([first.mean, self.rows.mean.expand(many)]),
            std=torch.cat([first.std, self.rows.std.expand(many)]),
        )
        group = Group(["random", *(arm.name for arm in arms)], self.score(both, rows, self.noise))
        return group, [{}, *notes]

    def local(self, count: int) -> Group:
        """Rows near the query rows of each block, encoded anew for the block."""
        cells, blocks = self.rows.cells[0], len(self.target_y)
        targets = self.rows.target_cells[0].unflatten(0, (blocks, -1))
        index = torch.cat(
            [memory_rows.local(cells, targets, count, share) for share in LOCAL_SHARES.values()]
        )  # [methods * C, M]
        target_x = self.target_x[:, None].repeat(len(LOCAL_SHARES), 1, 1, 1)
        rows = self.read(self.x[index], self.y[index], target_x)
        kept, _ = encode(self.trunk, rows.context, rows.y)
        scores = self.score(kept, rows, self.noise)

        def by_way(x: Tensor) -> Tensor:
            return x.flatten(0, 1).unflatten(0, (len(LOCAL_SHARES), blocks)) if x.ndim > 1 else x

        found = scores._replace(share=scores.share.view(len(LOCAL_SHARES), -1).mean(dim=1))
        return Group(list(LOCAL_SHARES), BlockScores(*map(by_way, found)))


def lines(group: Group, whole: BlockScores, rare: Tensor) -> Iterator[dict[str, Any]]:
    """Means over the held-out rows of each method; rare [C] bool."""
    scores = group.scores
    for index, name in enumerate(group.names):
        density, joint = scores.log_density[index], scores.joint[index] / BLOCK
        found = {
            "method": name,
            "log_density": density.mean(),
            "crps": scores.crps[index].mean(),
            "joint": joint.mean(),
            "inside": scores.inside[index].double().mean(),
            "sum_crps": scores.sum_crps[index].mean(),
            "share": scores.share[index],
            "distance": (density - whole.log_density[0]).abs().mean(),
            "joint_distance": (joint - whole.joint[0] / BLOCK).abs().mean(),
        }
        if rare.any():
            found["rare"] = density[rare].mean()
            found["ordinary"] = density[~rare].mean()
        yield {k: v if isinstance(v, str) else round(v.item(), 6) for k, v in found.items()}


@torch.inference_mode()
def run(
    model: JointModel,
    name: str,
    question: Question,
    seed: int,
    paths: int,
    counts: tuple[int, ...],
    arms: tuple[Arm, ...] = (),
) -> Iterator[dict[str, Any]]:
    """The scores of one question, a line for each M and method, or arm if there are any; M of all
    rows is N."""
    experiment = Experiment(model, question, seed, paths)
    rare = torch.from_numpy(question.rare).to(experiment.device)
    rows = len(question.y)
    whole = experiment.all_rows()
    if question.truth is not None:
        found = {"method": "truth", "m": 0, "log_density": float(question.truth.mean())}
        if question.rare.any():
            found["rare"] = float(question.truth[question.rare].mean())
            found["ordinary"] = float(question.truth[~question.rare].mean())
        yield found
    for line in lines(whole, whole.scores, rare):
        yield {"m": rows, **line}
    for count in counts:
        if count >= rows:
            continue
        if arms:
            of_arms, notes = experiment.arms(count, arms)
            for line, note in zip(lines(of_arms, whole.scores, rare), notes, strict=True):
                yield {"m": count, **line, **note}
            continue
        chunk = CHUNKS.get(rows, 0) if count in CHUNK_COUNTS else 0
        for group in (experiment.shared(count, chunk, name), experiment.local(count)):
            for line in lines(group, whole.scores, rare):
                yield {"m": count, **line}


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def arms_of(text: str) -> tuple[Arm, ...]:
    groupings, chunks = text.split(":")
    names = groupings.split(",") if groupings else list(GROUPINGS)
    return tuple(Arm(name, chunk) for name in names for chunk in numbers(chunks))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m models.research.evaluate.memory_sets", description=__doc__
    )
    add = parser.add_argument
    default = pathlib.Path(__file__).resolve().parents[2] / "default"
    add("--model", type=pathlib.Path, default=default, metavar="FOLDER")
    add("--device", default="cpu")
    add("--tables", type=lambda text: text.split(","), default=list(memory_tables.NAMES))
    add("--sizes", type=numbers, default=SIZES, help="rows of a context")
    add("--counts", type=numbers, default=COUNTS, help="M")
    add(
        "--arms",
        type=arms_of,
        default=(),
        metavar="GROUPINGS:ROWS",
        help="only these, all and random rows: names of groupings, or none for all of them, and "
        "rows of a chunk (:512,2048)",
    )
    add("--seeds", type=numbers, default=tuple(range(10)))
    add("--paths", type=int, default=PATHS, help="sample paths of a block; 0: no sums")
    add("--part", type=numbers, default=(0, 1), help="i,n: every n-th question from the i-th on")
    add("--seconds", type=float, default=float("inf"), help="begins no question after so many")
    add("--out", type=pathlib.Path, default=pathlib.Path("build/memory.jsonl"), metavar="FILE")
    return parser.parse_args()


def main() -> None:
    from models.research.training.weight_file import load_model

    options, started = arguments(), time.monotonic()
    model = load_model(options.model).to(options.device)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = set()
    if options.out.exists():
        lines_so_far = map(json.loads, options.out.read_text().splitlines())
        done = {(line["table"], line["n"], line["seed"]) for line in lines_so_far}
    questions = [(seed, name) for seed in options.seeds for name in options.tables]
    mine, of = options.part
    for number, (seed, name) in enumerate(questions):
        if number % of != mine:
            continue
        for rows in options.sizes:
            if rows > memory_tables.most_rows(name):
                continue
            if time.monotonic() - started > options.seconds:
                return
            if (name, rows, seed) in done:
                continue
            question = memory_tables.question(name, rows, seed)
            head = {"table": name, "n": rows, "seed": seed}
            found = [
                json.dumps({**head, **line}) + "\n"
                for line in run(
                    model, name, question, seed, options.paths, options.counts, options.arms
                )
            ]
            with options.out.open("a") as file:
                file.write("".join(found))
            spent = time.monotonic() - started
            print(f"{spent:7.1f} s  {name} {rows} {seed}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
