#!/usr/bin/env python3
"""How much longer `sample` takes through the package than through the C++ client.

    tests/client/python/overhead.py [--build build/release] [--values 65536,4194304] [--rounds 7]
    tests/client/python/overhead.py --check

Both clients make the same call, in turns, and end to end: from the table of rows to an array of all
values. The C++ client is the program `chorale sample`, up to the moment when it says that it has
the samples; neither its start nor what it writes counts, as a call for one path is taken off, and
so it is from the package's time. Two servers answer:

- `real`: the server with the model golden_tiny, which is as small as can be, on one thread less
  than the machine has;
- `replay`: a program that sends what the real one has sent, as fast as it can, in messages as full
  as the real one makes them for a client that is slower than it, so that the clients have nothing
  to wait for;
- `replay, small`: the same in the smallest blocks that a server on a CPU makes, 32 paths by one
  step.

Prints medians in milliseconds over the rounds, of time and of the client's processor time, and the
ratios of the medians. Needs a machine with nothing else to do. `--check` only compares
what the two clients bring, and takes a second. The programs are those of the package
chorale-server, or of CHORALE_SERVER_BUNDLE, or those of --build.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import chorale_client
import grpc
import numpy as np
import numpy.typing as npt
from chorale_client import _server_program
from chorale_client._channel import HEALTH_METHOD
from chorale_client._v1 import chorale_pb2 as pb

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "tests/golden/golden_tiny"
NAME = "overhead"
FEATURES = 3
TARGETS = 256
HAS_SAMPLES = "chorale: seed "  # a line of the command line before it writes them
MESSAGE_BYTES = 256 << 10  # of the server's messages, SampleReactor::kMessageBytes
FLAGS = ["--backend=cpu", f"--threads={max(1, (os.cpu_count() or 2) - 1)}"]

Columns = dict[str, npt.NDArray[np.float64]]


def columns(rows: int, seed: int) -> Columns:
    """A table of numbers."""
    random = np.random.default_rng(seed)
    return {f"x{i}": random.normal(size=rows).round(6) for i in range(FEATURES)}


def write_csv(table: Columns, path: pathlib.Path) -> pathlib.Path:
    """The same for the command line."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    return path


@dataclass(frozen=True)
class Taken:
    """Seconds: of the clock, and of the client's processor time."""

    wall: float
    processor: float


class CommandLine:
    """`chorale sample`, with one file of rows."""

    def __init__(self, program: pathlib.Path, address: str, rows: pathlib.Path) -> None:
        self._command = [str(program), "--server", address, "--connect-timeout", "60"]
        self._rows = str(rows)

    def take(self, paths: int) -> Taken:
        """How long it takes from its start until it has the samples."""
        command = [*self._command, "sample", NAME, self._rows, "--wrap", "--seed=1"]
        begun = time.perf_counter()
        process = subprocess.Popen(
            [*command, f"--paths={paths}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = []
        with process.stderr:
            for line in process.stderr:
                said.append(line)
                if line.startswith(HAS_SAMPLES):  # now it would write them
                    break
            wall = time.perf_counter() - begun
            os.kill(process.pid, signal.SIGKILL)  # not by Popen, which would wait for it
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if not (said and said[-1].startswith(HAS_SAMPLES)):
            sys.exit(f"overhead.py: chorale sample failed: {''.join(said)}")
        return Taken(wall, used.ru_utime + used.ru_stime)

    def samples(self, paths: int, *options: str) -> dict[str, Any]:
        """What it writes."""
        command = [*self._command, "--format=json", "sample", NAME, self._rows, "--wrap"]
        done = subprocess.run(
            [*command, "--seed=1", f"--paths={paths}", *options], capture_output=True, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found


class Package:
    """`Context.sample` in this process."""

    def __init__(self, address: str, rows: Columns) -> None:
        self._client = chorale_client.connect(address, connect_timeout=60)
        self._context = self._client.context(NAME)
        self._rows = rows

    def take(self, paths: int) -> Taken:
        """How long a call takes."""
        processor, begun = time.process_time(), time.perf_counter()
        self.samples(paths)
        return Taken(time.perf_counter() - begun, time.process_time() - processor)

    def samples(self, paths: int, **options: Any) -> chorale_client.Samples:
        """What it brings."""
        return self._context.sample(self._rows, paths=paths, seed=1, wrap=True, **options)

    def close(self) -> None:
        self._client.close()


# ---- The server that sends what another has sent -----------------------------------------------


def record(address: str, rows: Columns, paths: int, folder: pathlib.Path) -> None:
    """Writes what the server answers to a call, in full messages, as files that `replay` reads.

    They go into two folders: as it came, and cut into blocks of one step.
    """
    channel: Any  # whose messages are bytes
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        context = channel.unary_unary("/chorale.v1.Chorale/GetContext")(
            pb.GetContextRequest(name=f"contexts/{NAME}").SerializeToString()
        )
        request = pb.SampleRequest(
            context=f"contexts/{NAME}",
            path_count=paths,
            seed=1,
            beyond_buffer=pb.BEYOND_BUFFER_WRAP,
        )
        for name, values in rows.items():
            request.rows.columns.add(name=name).numeric.values.extend(values)
        stream = channel.unary_stream("/chorale.v1.Chorale/Sample")(request.SerializeToString())
        answers = [pb.SampleResponse.FromString(answer) for answer in stream]
    blocks = [block for answer in answers for block in answer.blocks.blocks]
    small = [step for block in blocks for step in steps_of(block)]
    for kind, some in (("as-it-came", blocks), ("small", small)):
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / "context").write_bytes(context)
        for number, message in enumerate([*full_messages(some), answers[-1]]):
            (folder / kind / f"{paths}-{number:05}").write_bytes(message.SerializeToString())


def steps_of(block: pb.SampleBlock) -> Iterator[pb.SampleBlock]:
    """A block for each of its steps."""
    for step in range(block.step_count):
        yield pb.SampleBlock(
            first_path=block.first_path,
            path_count=block.path_count,
            first_step=block.first_step + step,
            step_count=1,
            values=block.values[step :: block.step_count],
        )


def full_messages(blocks: list[pb.SampleBlock]) -> Iterator[pb.SampleResponse]:
    """Messages with as many blocks as the server would put into one."""
    size, begin = 0, 0
    for end, block in enumerate(blocks):
        if size + block.ByteSize() > MESSAGE_BYTES:
            yield pb.SampleResponse(blocks=pb.SampleBlocks(blocks=blocks[begin:end]))
            size, begin = 0, end
        size += block.ByteSize()
    yield pb.SampleResponse(blocks=pb.SampleBlocks(blocks=blocks[begin:]))


class Replay(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Answers as the files in a folder say."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._context = (folder / "context").read_bytes()
        self._answers: dict[int, list[bytes]] = {}
        for file in sorted(folder.glob("*-*")):
            self._answers.setdefault(int(file.name.split("-")[0]), []).append(file.read_bytes())

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The function that answers a call."""
        method: str = call.method
        if method == HEALTH_METHOD:
            return grpc.unary_unary_rpc_method_handler(lambda request, _: b"\x08\x01")
        if method.endswith("/GetContext"):
            return grpc.unary_unary_rpc_method_handler(lambda request, _: self._context)
        if method.endswith("/Sample"):
            return grpc.unary_stream_rpc_method_handler(self._sample)
        return None

    def _sample(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        return iter(self._answers[pb.SampleRequest.FromString(request).path_count])


def serve_replay(folder: pathlib.Path) -> None:
    """Serves until standard input ends; prints the address."""
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Replay(folder)])
    print(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None).wait()


@contextlib.contextmanager
def replay(folder: pathlib.Path) -> Iterator[str]:
    """The address of a process that serves it."""
    with subprocess.Popen(
        [sys.executable, __file__, "--replay", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


# ---- What is compared --------------------------------------------------------------------------


def check(program: CommandLine, package: Package, paths: int) -> None:
    """Both clients bring the same."""
    for order in ("given", "random"):
        theirs = program.samples(paths, "--log-density", f"--order={order}")
        own = package.samples(paths, log_densities=True, order=order)
        assert own.log_densities is not None
        for what, values in (("values", own.values), ("log_densities", own.log_densities)):
            if not np.array_equal(np.array(theirs[what]), values):
                sys.exit(f"overhead.py: the {what} in order {order!r} differ")
    print(f"both clients bring the same {paths} paths of {own.values.shape[1]} rows")


def measure(server: str, program: CommandLine, package: Package, paths: int, rounds: int) -> None:
    """Prints a line of the table."""
    taken: list[list[Taken]] = []
    for number in range(rounds):
        clients: list[CommandLine | Package] = [program, package]
        if number % 2:
            clients.reverse()
        both = {}
        for client in clients:
            start, whole = client.take(1), client.take(paths)
            both[client] = Taken(
                whole.wall - start.wall, max(0.0, whole.processor - start.processor)
            )
        taken.append([both[program], both[package]])
    wall = [[1e3 * client.wall for client in both] for both in taken]
    processor = [[1e3 * client.processor for client in both] for both in taken]
    walls = [statistics.median(each) for each in zip(*wall, strict=True)]
    figures = [
        *walls,
        walls[1] / walls[0],
        *(statistics.median(each) for each in zip(*processor, strict=True)),
    ]
    print(
        f"| {server} | {paths * TARGETS:,} | "
        + " | ".join(
            f"{figure:.{digits}f}" for figure, digits in zip(figures, [1, 1, 2, 1, 1], strict=True)
        )
        + " |",
        flush=True,
    )


def compare(
    programs: pathlib.Path, sizes: list[int], rounds: int, *, only_check: bool, without_real: bool
) -> None:
    """See the module."""
    rows = columns(TARGETS, seed=2)
    table = columns(64, seed=1)
    table["y"] = table["x0"] + 2 * table["x1"]
    with (
        tempfile.TemporaryDirectory() as name,
        chorale_client.serve(models=MODEL, flags=FLAGS) as server,
        server.connect() as client,
    ):
        client.register(table, target="y", name=NAME)
        file = write_csv(rows, pathlib.Path(name, "rows.csv"))
        with contextlib.closing(Package(server.address, rows)) as package:
            program = CommandLine(programs, server.address, file)
            check(program, package, 33)
            if only_check:
                return
            print(
                "| server | values | C++ ms | package ms | ratio | C++ processor ms "
                "| package processor ms |\n| --- | --- | --- | --- | --- | --- | --- |"
            )
            for size in () if without_real else sizes:
                measure("real", program, package, size // TARGETS, rounds)
        folder = pathlib.Path(name, "recorded")
        folder.mkdir()
        for paths in (1, *(size // TARGETS for size in sizes)):
            record(server.address, rows, paths, folder)
        for server_name, kind in (("replay", "as-it-came"), ("replay, small", "small")):
            with (
                replay(folder / kind) as address,
                contextlib.closing(Package(address, rows)) as package,
            ):
                program = CommandLine(programs, address, file)
                for size in sizes:
                    measure(server_name, program, package, size // TARGETS, rounds)


def bundle_of_build(build: pathlib.Path, folder: pathlib.Path) -> None:
    """Makes a folder like a bundle of the programs of a build, and has the package use it."""
    (folder / "bin").mkdir(parents=True)
    for program in ("server/chorale-server", "client/cli/chorale"):
        if not (build / program).exists():
            sys.exit(f"overhead.py: {build / program} is not built")
        (folder / "bin" / pathlib.Path(program).name).symlink_to((build / program).resolve())
    os.environ["CHORALE_SERVER_BUNDLE"] = str(folder)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, help="folder of a build with the programs")
    parser.add_argument("--check", action="store_true", help="only whether both bring the same")
    parser.add_argument("--values", default="65536,262144,1048576,4194304")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--without-real", action="store_true", help="no calls of the real server")
    parser.add_argument("--replay", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        serve_replay(options.replay)
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.build:
            bundle_of_build(options.build, pathlib.Path(folder, "bundle"))
        program = _server_program.bundle() / "bin/chorale"
        sizes = [int(size) for size in options.values.split(",")]
        compare(
            program,
            sizes,
            options.rounds,
            only_check=options.check,
            without_real=options.without_real,
        )


if __name__ == "__main__":
    main()
