#!/usr/bin/env python3
"""Makes the wheels chorale-client, chorale-server and, if the bundle has it, chorale-server-cuda.

    client/python_server/make_wheels.py [--bundle FOLDER] [--out FOLDER]

Reads a release bundle (`ninja -C build/release bundle`); requirements.txt beside this file says
what has to be installed. The wheels with programs are tagged with the oldest C library that they
run with, as auditwheel finds it. The same sources and the same bundle make the same bytes: files
get the time SOURCE_DATE_EPOCH of the environment, or that of the commit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
CUDA_LIBRARY = Path("lib/libchorale_cuda.so")
THIRD_PARTY = Path("share/doc/chorale/third_party")


def source_date() -> str:
    """The time that all files of the wheels get."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    found = subprocess.run(
        ["git", "-C", SOURCE, "log", "-1", "--format=%ct"], capture_output=True, text=True
    )
    return found.stdout.strip() or "0"


def find_bundle() -> Path:
    """The bundle of the release build."""
    found = [path for path in (SOURCE / "build/release/bundle").glob("chorale-*") if path.is_dir()]
    if len(found) != 1:
        sys.exit("make_wheels.py: no bundle: run ninja -C build/release bundle, or give --bundle")
    return found[0]


def check_versions(bundle: Path) -> None:
    """The three packages and the bundle are of one version."""
    match = re.fullmatch(r"chorale-(.+)-linux-(.+)", bundle.name)
    if match is None:
        sys.exit(f"make_wheels.py: {bundle} is not named like a bundle")
    for project in (SOURCE / "client/python", HERE / "server", HERE / "cuda"):
        if f'\nversion = "{match.group(1)}"\n' not in (project / "pyproject.toml").read_text():
            sys.exit(f"make_wheels.py: {project} is not of the bundle's version, {match.group(1)}")


def stage(project: str, work: Path) -> Path:
    """A copy of a project's folder, into which files of the bundle go."""
    copy = work / project
    shutil.copytree(HERE / project, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "hatch_build.py", copy)
    shutil.copy(SOURCE / "LICENSE", copy)
    return copy


def stage_server(bundle: Path, work: Path) -> Path:
    """The project chorale-server with all of the bundle but what is for GPUs."""
    project = stage("server", work)
    shutil.copy(HERE / "README.md", project)
    inside = project / "src/chorale_server/bundle"
    shutil.copytree(bundle, inside)
    (inside / CUDA_LIBRARY).unlink(missing_ok=True)
    shutil.rmtree(inside / THIRD_PARTY / "cuda-toolkit", ignore_errors=True)
    bill = inside / "share/doc/chorale/sbom.cdx.json"
    if bill.exists():
        bill.write_text(without_cuda(bill.read_text()))
    return project


def without_cuda(bill: str) -> str:
    """A bill of materials without what is only in chorale-server-cuda."""
    content = json.loads(bill)
    gone = {"cuda-runtime", f"file:{CUDA_LIBRARY}"}
    content["components"] = [c for c in content["components"] if c["bom-ref"] not in gone]
    for dependency in content["dependencies"]:
        dependency["dependsOn"] = [ref for ref in dependency["dependsOn"] if ref not in gone]
    return json.dumps(content, indent=1) + "\n"


def stage_cuda(bundle: Path, work: Path) -> Path:
    """The project chorale-server-cuda."""
    project = stage("cuda", work)
    shutil.copy(bundle / CUDA_LIBRARY, project / "src/chorale_server_cuda")
    shutil.copy(bundle / THIRD_PARTY / "cuda-toolkit/copyright", project / "LICENSE.cuda-toolkit")
    return project


def build(project: Path, out: Path, platform: str) -> Path:
    """Builds a wheel; returns its path."""
    out.mkdir(parents=True, exist_ok=True)
    before = set(out.iterdir())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, project],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "CHORALE_WHEEL_PLATFORM": platform},
    )
    (wheel,) = set(out.iterdir()) - before
    return wheel


def platform_of(wheel: Path) -> str:
    """The platform that auditwheel finds a wheel to be for, as its tag has it."""
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = re.search(r'consistent with the\s+following\s+platform\s+tag:\s*"([\w.]+)"', shown)
    if found is None:
        sys.exit(f"make_wheels.py: auditwheel does not say what {wheel.name} is for:\n{shown}")
    return found.group(1)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, help="the newest of build/release/bundle")
    parser.add_argument("--out", type=Path, default=SOURCE / "build/wheels")
    options = parser.parse_args()
    bundle = (options.bundle or find_bundle()).resolve()
    check_versions(bundle)
    os.environ["SOURCE_DATE_EPOCH"] = source_date()
    shutil.rmtree(options.out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        server = stage_server(bundle, work)
        platform = platform_of(build(server, work / "tried", "linux_x86_64"))
        wheels = [
            build(SOURCE / "client/python", options.out, "any"),
            build(server, options.out, platform),
        ]
        if (bundle / CUDA_LIBRARY).exists():
            wheels.append(build(stage_cuda(bundle, work), options.out, platform))
    for wheel in wheels:
        print(f"{wheel}: {wheel.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
