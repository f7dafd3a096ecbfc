#!/usr/bin/env python3
"""Runs clang-tidy on the project's own sources, in parallel, and remembers what was clean.

Usage: clang_tidy.py --build BUILD_FOLDER --cache FOLDER [--jobs N] [--clang-tidy PROGRAM] [FILE...]

Kernels for GPUs (*.cu) are left out: they count in 32 bits where that is enough, since registers are
what they are short of, and that is most of what would be found in them.

Tests are left out: what GoogleTest's macros expand to is most of what would be found in them, and
they would double the time. They are compiled with all warnings like the rest.

A source is not looked at again while its text, the own headers that it includes, its compiler
command, .clang-tidy and clang-tidy's version are what they were when it was last clean.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN_INCLUDE = re.compile(
    rb'^\s*#\s*include\s+"((?:base|kernels|engine|server|client|tests|proto)/[^"]+)"', re.MULTILINE)
OWN_FOLDERS = ('base', 'kernels', 'engine', 'server', 'client')
NOISE = re.compile(r'^\d+ warnings? (generated|treated)|^Suppressed |^Use -header-filter')


def own_sources(build):
    """{path relative to the root: compiler command} of all own sources of the build."""
    commands = json.loads((build / 'compile_commands.json').read_text())
    sources = {}
    for entry in commands:
        path = pathlib.Path(entry['directory'], entry['file']).resolve()
        if ROOT not in path.parents:
            continue
        source = path.relative_to(ROOT)
        if source.parts[0] in OWN_FOLDERS and source.suffix != '.cu':
            sources[source] = entry['command']
    return sources


def included_files(source):
    """The source and all own headers that it reaches."""
    seen, todo = set(), [source]
    while todo:
        path = todo.pop()
        if path in seen or not (ROOT / path).is_file():
            continue
        seen.add(path)
        for include in OWN_INCLUDE.findall((ROOT / path).read_bytes()):
            todo.append(pathlib.Path(include.decode()))
    return sorted(seen)


def fingerprint(source, command, version):
    digest = hashlib.sha256()
    protos = sorted((ROOT / 'proto').rglob('*.proto'))  # what generated headers are made from
    for path in [ROOT / '.clang-tidy', *protos, *(ROOT / p for p in included_files(source))]:
        digest.update(str(path.relative_to(ROOT)).encode() + b'\0' + path.read_bytes() + b'\0')
    digest.update(command.encode() + b'\0' + version)
    return digest.hexdigest()


def run_one(tidy, build, cache, source, command, version):
    """(source, 'clean', 'known' or the findings, seconds)"""
    stamp = cache / fingerprint(source, command, version)
    if stamp.exists():
        return source, 'known', 0.0
    started = time.monotonic()
    run = subprocess.run([tidy, '--quiet', '-p', build, str(ROOT / source)], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    seconds = time.monotonic() - started
    if run.returncode == 0:
        stamp.touch()
        return source, 'clean', seconds
    lines = [line for line in run.stdout.splitlines() if not NOISE.match(line)]
    return source, '\n'.join(lines), seconds


def new_findings(text, seen):
    """The findings that are not in `seen` yet: one in a header comes again with every includer."""
    new, keep = [], True
    for line in text.splitlines():
        if ': error: ' in line or ': warning: ' in line:
            keep = line not in seen
            seen.add(line)
        if keep:
            new.append(line)
    return '\n'.join(new)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--cache', type=pathlib.Path, required=True)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--clang-tidy', default='clang-tidy')
    parser.add_argument('files', nargs='*', type=pathlib.Path)
    arguments = parser.parse_args()

    arguments.cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([arguments.clang_tidy, '--version'], stdout=subprocess.PIPE,
                             check=True).stdout
    sources = own_sources(arguments.build)
    if arguments.files:
        sources = {path: sources[path] for path in arguments.files}
    if not sources:
        print('no sources found')
        return 1

    started = time.monotonic()
    known, bad, times, seen = 0, 0, [], set()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(run_one, arguments.clang_tidy, arguments.build, arguments.cache, source,
                            command, version) for source, command in sorted(sources.items())]
        for run in concurrent.futures.as_completed(runs):
            source, findings, seconds = run.result()
            times.append((seconds, source))
            known += findings == 'known'
            if findings not in ('clean', 'known'):
                bad += 1
                new = new_findings(findings, seen)
                if new:
                    print(new, flush=True)
    for seconds, source in sorted(times, reverse=True)[:5]:
        print(f'{seconds:6.1f} s  {source}')
    print(f'{len(sources)} sources, {known} known to be clean, {bad} with findings, '
          f'{time.monotonic() - started:.0f} s')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
