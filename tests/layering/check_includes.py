#!/usr/bin/env python3
"""Holds the include edges between the project's folders, and from each folder to third parties.

Usage: check_includes.py [ROOT]     prints one line per violation, exits 1 if there is any.

Linking cannot hold the direction, because every header is reachable from the repository's root.
An edge that is not in RULES is refused: a new one is a decision, made by a line in this file.
"""

import dataclasses
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
SOURCE_SUFFIXES = {'.h', '.cc', '.cu', '.cuh'}
OWN_FOLDERS = ('kernels/', 'engine/', 'server/', 'client/', 'tests/')
# Generated from proto/, and found through the include path of the build folder.
PROTO_PREFIXES = ('chorale/v1/', 'google/rpc/')

POSIX = ('sys/', 'dlfcn.h', 'netinet/', 'arpa/', 'unistd.h', 'fcntl.h', 'signal.h', 'pthread.h', 'dirent.h',
         'poll.h', 'spawn.h', 'netdb.h', 'termios.h', 'sched.h', 'errno.h', 'limits.h')
ENGINE_LIBRARIES = ('absl/', 'nlohmann/', 'openssl/', 'spdlog/', *POSIX)


@dataclasses.dataclass(frozen=True)
class Rule:
    """What the files of one folder may include; entries ending in '/' are prefixes."""
    own: tuple
    libraries: tuple


# The first folder that a path starts with decides.
RULES = {
    'kernels/cuda/': Rule(
        own=('kernels/cuda/', 'kernels/cell_features.h', 'kernels/field_checks.h', 'kernels/layout.h',
             'kernels/step_draw.h'),
        libraries=('absl/status/', 'absl/strings/', 'cuda_runtime_api.h', 'sanitizer/', 'setjmp.h',
                   'ucontext.h')),
    'kernels/': Rule(
        own=('kernels/',),
        libraries=('absl/status/', 'absl/strings/', 'hwy/', 'Random123/', 'immintrin.h')),
    'engine/data/': Rule(
        own=('engine/data/', 'engine/model/model_config.h'),
        libraries=ENGINE_LIBRARIES),
    'engine/model/': Rule(
        own=('engine/model/', 'engine/data/names.h', 'kernels/'),
        libraries=ENGINE_LIBRARIES),
    'engine/store/': Rule(
        own=('engine/store/', 'engine/data/', 'engine/mutex.h'),
        libraries=(*ENGINE_LIBRARIES, 'sqlite3.h')),
    'engine/backends/': Rule(
        own=('engine/backends/', 'engine/data/', 'engine/model/', 'kernels/', 'engine/mutex.h',
             'engine/require.h'),
        libraries=ENGINE_LIBRARIES),
    'engine/': Rule(
        own=('engine/', 'kernels/'),
        libraries=ENGINE_LIBRARIES),
    'server/': Rule(
        own=('server/', 'engine/', *PROTO_PREFIXES),
        libraries=('absl/', 'spdlog/', 'grpc/', 'grpcpp/', 'google/protobuf/', 'prometheus/',
                   'nlohmann/', 'CivetServer.h', 'civetweb.h', *POSIX)),
    'client/': Rule(
        own=('client/', *PROTO_PREFIXES),
        libraries=('absl/', 'grpc/', 'grpcpp/', 'google/protobuf/', 'CLI/', 'csv.h', 'nlohmann/',
                   *POSIX)),
}


def matches(include, allowed):
    return any(include.startswith(a) if a.endswith('/') else include == a for a in allowed)


def is_standard(include):
    """C++ standard headers have neither a folder nor a suffix."""
    return '/' not in include and '.' not in include


def rule_of(path):
    return next((rule for folder, rule in RULES.items() if path.startswith(folder)), None)


def check_include(path, include, rule, root):
    """What is wrong with this edge, or None."""
    if include.startswith(OWN_FOLDERS):
        if not (root / include).is_file():
            return f'includes "{include}", which does not exist'
        return None if matches(include, rule.own) else f'must not include "{include}"'
    if include.startswith(PROTO_PREFIXES):
        return None if matches(include, rule.own) else f'must not include "{include}"'
    if is_standard(include) or matches(include, rule.libraries):
        return None
    return f'must not include <{include}>'


def check_tree(root):
    """All violations under `root`, as 'path:line: what'."""
    root = pathlib.Path(root)
    violations = []
    for file in sorted(root.rglob('*')):
        path = file.relative_to(root).as_posix()
        rule = rule_of(path)
        if rule is None or file.suffix not in SOURCE_SUFFIXES:
            continue
        for number, line in enumerate(file.read_text(encoding='utf-8').splitlines(), start=1):
            found = INCLUDE.match(line)
            if found is None:
                continue
            problem = check_include(path, found.group(1) or found.group(2), rule, root)
            if problem is not None:
                violations.append(f'{path}:{number}: {problem}')
    return violations


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    violations = check_tree(root)
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == '__main__':
    sys.exit(main())
