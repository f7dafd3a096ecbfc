#!/usr/bin/env python3
"""Runs clang-tidy on the project's own sources, in parallel, and remembers what was clean.

Usage: clang_tidy.py --build BUILD_FOLDER --cache FOLDER [--jobs N] [--clang-tidy PROGRAM]
                     [--all-checks] [FILE...]

Kernels for GPUs (*.cu) are left out: they count in 32 bits where that is enough, since registers are
what they are short of, and that is most of what would be found in them.

Tests are left out: what GoogleTest's macros expand to is most of what would be found in them, and
they would double the time. They are compiled with all warnings like the rest.

Where the build compiles several files as one (CHORALE_UNITY_BUILD), clang-tidy sees them so, too:
headers are parsed once for all of them.

A unit is not checked again while the text of its sources, the own headers that they include, its
compiler command, the options, .clang-tidy and the packages of the system are what they were when it
was last clean.
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
UNITY_INCLUDE = re.compile(r'^#include "(/[^"]+)"', re.MULTILINE)
# Checks that take long and have found nothing here: they run with --all-checks.
SLOW_CHECKS = ('bugprone-assert-side-effect', 'bugprone-forward-declaration-namespace',
               'bugprone-infinite-loop', 'bugprone-misplaced-widening-cast',
               'bugprone-multiple-statement-macro', 'bugprone-not-null-terminated-result',
               'bugprone-sizeof-expression', 'bugprone-stringview-nullptr',
               'bugprone-suspicious-semicolon', 'bugprone-suspicious-string-compare',
               'google-runtime-int', 'modernize-use-nullptr',
               'performance-type-promotion-in-math-fn')
# Findings in the sources that a unit of several includes are reported; that it includes them is not.
UNITY_HEADERS = r'--header-filter=/(base|kernels|engine|server|client|tests)/.*\.(h|cc)$'
UNITY_CHECKS = ('bugprone-suspicious-include',)
KEEP_CLEAN_DAYS = 30
OWN_INCLUDE = re.compile(
    rb'^\s*#\s*include\s+"((?:base|kernels|engine|server|client|tests|proto)/[^"]+)"', re.MULTILINE)
GENERATED_INCLUDE = re.compile(rb'^\s*#\s*include\s+"[^"]+\.pb\.h"', re.MULTILINE)
OWN_FOLDERS = ('base', 'kernels', 'engine', 'server', 'client')
NOISE = re.compile(r'^\d+ warnings? (generated|treated)|^Suppressed |^Use -header-filter')


def sources_of(unit):
    """The sources of a unit of the build: itself, or those that it includes as one."""
    if 'Unity' not in unit.parts or not unit.is_file():
        return [unit]
    return [pathlib.Path(path).resolve() for path in UNITY_INCLUDE.findall(unit.read_text())]


def own_units(build):
    """{unit: (its sources relative to the root, compiler command)} of all own units of the build."""
    commands = json.loads((build / 'compile_commands.json').read_text())
    units = {}
    for entry in commands:
        unit = pathlib.Path(entry['directory'], entry['file']).resolve()
        sources = [path.relative_to(ROOT) for path in sources_of(unit) if ROOT in path.parents]
        if sources and all(source.parts[0] in OWN_FOLDERS and source.suffix != '.cu'
                           for source in sources):
            units[unit] = (sources, entry['command'])
    return units


def included_files(sources):
    """The sources and all own headers that they reach."""
    seen, todo = set(), list(sources)
    while todo:
        path = todo.pop()
        if path in seen or not (ROOT / path).is_file():
            continue
        seen.add(path)
        for include in OWN_INCLUDE.findall((ROOT / path).read_bytes()):
            todo.append(pathlib.Path(include.decode()))
    return sorted(seen)


def installed_packages():
    """What the system's headers depend on; empty where there is no dpkg."""
    try:
        return subprocess.run(['dpkg-query', '--show'], stdout=subprocess.PIPE, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return b''


def options_of(unit, sources, all_checks):
    """The options of clang-tidy for a unit."""
    unity = unit != ROOT / sources[0]
    off = (*(UNITY_CHECKS if unity else ()), *(() if all_checks else SLOW_CHECKS))
    return ([UNITY_HEADERS] if unity else []) + (
        ['--checks=' + ','.join(f'-{check}' for check in off)] if off else [])


def fingerprint(sources, command, version, options):
    digest = hashlib.sha256()
    paths = [ROOT / '.clang-tidy', *(ROOT / p for p in included_files(sources))]
    if any(GENERATED_INCLUDE.search(path.read_bytes()) for path in paths):
        paths += sorted((ROOT / 'proto').rglob('*.proto'))  # what such headers are made from
    for path in paths:
        digest.update(str(path.relative_to(ROOT)).encode() + b'\0' + path.read_bytes() + b'\0')
    digest.update('\0'.join([command, *options]).encode() + b'\0' + version)
    return digest.hexdigest()


def run_one(tidy, build, cache, unit, sources, command, version, options):
    """(name of the unit, 'clean', 'known' or the findings, seconds)"""
    name = str(sources[0]) if len(sources) == 1 else f'{sources[0]} and {len(sources) - 1} more'
    stamp = cache / fingerprint(sources, command, version, options)
    if stamp.exists():
        stamp.touch()
        return name, 'known', 0.0
    started = time.monotonic()
    run = subprocess.run([tidy, '--quiet', *options, '-p', build, str(unit)], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    seconds = time.monotonic() - started
    if run.returncode == 0:
        stamp.touch()
        return name, 'clean', seconds
    lines = [line for line in run.stdout.splitlines() if not NOISE.match(line)]
    return name, '\n'.join(lines), seconds


def forget_old(cache):
    """Removes what was clean long ago: nothing else would."""
    oldest = time.time() - KEEP_CLEAN_DAYS * 24 * 3600
    for stamp in cache.iterdir():
        if stamp.stat().st_mtime < oldest:
            stamp.unlink()


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
    parser.add_argument('--all-checks', action='store_true')
    parser.add_argument('files', nargs='*', type=pathlib.Path)
    arguments = parser.parse_args()

    arguments.cache.mkdir(parents=True, exist_ok=True)
    forget_old(arguments.cache)
    version = subprocess.run([arguments.clang_tidy, '--version'], stdout=subprocess.PIPE,
                             check=True).stdout + installed_packages()
    units = own_units(arguments.build)
    if arguments.files:
        units = {unit: rest for unit, rest in units.items() if set(arguments.files) & set(rest[0])}
    if not units:
        print('no sources found')
        return 1

    started = time.monotonic()
    known, bad, times, seen = 0, 0, [], set()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(run_one, arguments.clang_tidy, arguments.build, arguments.cache, unit,
                            sources, command, version,
                            options_of(unit, sources, arguments.all_checks))
                for unit, (sources, command) in sorted(units.items())]
        for run in concurrent.futures.as_completed(runs):
            name, findings, seconds = run.result()
            times.append((seconds, name))
            known += findings == 'known'
            if findings not in ('clean', 'known'):
                bad += 1
                new = new_findings(findings, seen)
                if new:
                    print(new, flush=True)
    for seconds, name in sorted(times, reverse=True)[:5]:
        print(f'{seconds:6.1f} s  {name}')
    sources = sum(len(sources) for sources, _ in units.values())
    print(f'{sources} sources in {len(units)} units, {known} known to be clean, {bad} with findings, '
          f'{time.monotonic() - started:.0f} s')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
