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
OWN_FOLDERS = ('base/', 'kernels/', 'engine/', 'server/', 'client/', 'tests/')
# Generated from proto/, and found through the include path of the build folder.
PROTO_PREFIXES = ('chorale/v1/', 'google/rpc/')

POSIX = ('sys/', 'dlfcn.h', 'netinet/', 'arpa/', 'unistd.h', 'fcntl.h', 'signal.h', 'pthread.h', 'dirent.h',
         'poll.h', 'spawn.h', 'netdb.h', 'termios.h', 'sched.h', 'errno.h', 'limits.h')
ENGINE_LIBRARIES = ('absl/', 'nlohmann/', 'openssl/', 'spdlog/', *POSIX)
SERVER_LIBRARIES = ('absl/', 'spdlog/', 'grpc/', 'grpcpp/', 'google/protobuf/', 'prometheus/',
                    'nlohmann/', 'CivetServer.h', 'civetweb.h', *POSIX)
CLIENT_LIBRARIES = ('absl/', 'grpc/', 'grpcpp/', 'google/protobuf/', 'CLI/', 'csv.h', 'nlohmann/', *POSIX)


@dataclasses.dataclass(frozen=True)
class Rule:
    """What the files of one folder may include; entries ending in '/' are prefixes."""
    own: tuple
    libraries: tuple


KERNEL_LIBRARIES = ('absl/status/', 'absl/strings/')
# Public headers of the engine: its interface, requests and results.
ENGINE_INTERFACE = ('engine/engine.h', 'engine/metrics_sink.h', 'engine/request.h')
BACKEND = ('engine/backend/backend.h', 'engine/backend/flop_model.h', 'engine/backend/layer_schedule.h',
           'engine/backend/token_offsets.h')

# The first folder that a path starts with decides. A folder may always include itself.
RULES = {
    'base/': Rule(own=(), libraries=('absl/', *POSIX)),

    'kernels/cuda/layout/': Rule(own=('base/',), libraries=()),
    'kernels/cuda/ptx/': Rule(own=('kernels/cuda/layout/',), libraries=()),
    'kernels/cuda/runtime/': Rule(own=('base/',), libraries=(*KERNEL_LIBRARIES, 'cuda_runtime_api.h')),
    'kernels/cuda/attention/': Rule(
        own=('base/', 'kernels/cuda/layout/', 'kernels/cuda/ptx/', 'kernels/cuda/runtime/',
             'kernels/ops/field_checks.h'),
        libraries=KERNEL_LIBRARIES),
    'kernels/cuda/layer/': Rule(
        own=('base/', 'kernels/cuda/attention/', 'kernels/cuda/layout/', 'kernels/cuda/ptx/',
             'kernels/cuda/runtime/', 'kernels/ops/field_checks.h'),
        libraries=KERNEL_LIBRARIES),
    'kernels/cuda/embed/': Rule(
        own=('base/', 'kernels/cuda/layout/', 'kernels/cuda/ptx/', 'kernels/cuda/runtime/',
             'kernels/ops/field_checks.h'),
        libraries=KERNEL_LIBRARIES),
    'kernels/cuda/head/': Rule(
        own=('base/', 'kernels/cuda/layout/', 'kernels/cuda/ptx/', 'kernels/cuda/runtime/',
             'kernels/ops/field_checks.h', 'kernels/ops/step_draw.h'),
        libraries=KERNEL_LIBRARIES),
    'kernels/cuda/row_encoder/': Rule(
        own=('base/', 'kernels/cuda/attention/', 'kernels/cuda/layout/', 'kernels/cuda/ptx/',
             'kernels/cuda/runtime/', 'kernels/ops/cell_features.h', 'kernels/ops/field_checks.h'),
        libraries=KERNEL_LIBRARIES),
    'kernels/ops/': Rule(own=('base/',), libraries=(*KERNEL_LIBRARIES, 'Random123/')),
    'kernels/cpu/': Rule(
        own=('base/', 'kernels/ops/'), libraries=(*KERNEL_LIBRARIES, 'hwy/', 'immintrin.h')),

    'engine/model/': Rule(own=('base/', 'kernels/ops/'), libraries=ENGINE_LIBRARIES),
    'engine/data/': Rule(own=('base/', 'engine/model/model_config.h'), libraries=ENGINE_LIBRARIES),
    'engine/store/': Rule(
        own=('base/', 'engine/data/'), libraries=(*ENGINE_LIBRARIES, 'sqlite3.h')),
    'engine/backend/host/': Rule(
        own=('base/', 'engine/model/', 'kernels/ops/'), libraries=ENGINE_LIBRARIES),
    'engine/backend/row_encoder/': Rule(
        own=('base/', *BACKEND, 'engine/backend/host/', 'engine/data/', 'engine/model/', 'kernels/ops/'),
        libraries=ENGINE_LIBRARIES),
    'engine/backend/cpu/': Rule(
        own=('base/', *BACKEND, 'engine/backend/host/', 'engine/backend/row_encoder/', 'engine/data/',
             'engine/model/', 'kernels/cpu/target.h', 'kernels/ops/'),
        libraries=ENGINE_LIBRARIES),
    'engine/backend/cuda/device/': Rule(
        own=('base/', 'engine/backend/backend.h', 'kernels/cuda/runtime/'),
        libraries=ENGINE_LIBRARIES),
    'engine/backend/cuda/row_encoder/': Rule(
        own=('base/', *BACKEND, 'engine/backend/cuda/device/', 'engine/backend/host/',
             'engine/backend/row_encoder/', 'engine/data/', 'engine/model/', 'kernels/cuda/',
             'kernels/ops/'),
        libraries=ENGINE_LIBRARIES),
    'engine/backend/cuda/': Rule(
        own=('base/', *BACKEND, 'engine/backend/cuda/', 'engine/backend/row_encoder/', 'engine/data/',
             'engine/model/', 'kernels/cuda/', 'kernels/ops/'),
        libraries=ENGINE_LIBRARIES),
    'engine/backend/cuda_plugin/': Rule(
        own=('base/', 'engine/backend/backend.h', 'engine/backend/cuda/backend.h',
             'engine/backend/cuda/device/memory_budget.h'),
        libraries=ENGINE_LIBRARIES),
    'engine/backend/': Rule(
        own=('base/', 'engine/data/', 'engine/model/'), libraries=ENGINE_LIBRARIES),
    'engine/memory/': Rule(
        own=('base/', 'engine/backend/backend.h', 'engine/metrics_sink.h'),
        libraries=ENGINE_LIBRARIES),
    'engine/context/': Rule(
        own=('base/', *ENGINE_INTERFACE, 'engine/backend/backend.h', 'engine/data/', 'engine/memory/',
             'engine/model/', 'engine/store/'),
        libraries=ENGINE_LIBRARIES),
    'engine/session/': Rule(
        own=('base/', *ENGINE_INTERFACE, 'engine/backend/backend.h', 'engine/context/', 'engine/data/',
             'engine/memory/', 'engine/model/', 'engine/store/', 'kernels/ops/'),
        libraries=ENGINE_LIBRARIES),
    'engine/loop/': Rule(
        own=('base/', *ENGINE_INTERFACE, 'engine/backend/backend.h', 'engine/context/', 'engine/memory/',
             'engine/session/'),
        libraries=ENGINE_LIBRARIES),
    'engine/impl/': Rule(
        own=('base/', *ENGINE_INTERFACE, 'engine/backend/backend.h', 'engine/context/', 'engine/data/',
             'engine/loop/', 'engine/memory/', 'engine/model/', 'engine/session/', 'engine/store/'),
        libraries=ENGINE_LIBRARIES),
    'engine/': Rule(
        own=('base/', *ENGINE_INTERFACE, 'engine/backend/backend.h', 'engine/data/', 'engine/model/',
             'engine/store/'),
        libraries=ENGINE_LIBRARIES),

    'server/telemetry/': Rule(own=('base/', *ENGINE_INTERFACE), libraries=SERVER_LIBRARIES),
    'server/codec/': Rule(
        own=('base/', *ENGINE_INTERFACE, 'engine/data/', 'server/telemetry/', *PROTO_PREFIXES),
        libraries=SERVER_LIBRARIES),
    'server/lifecycle/': Rule(
        own=('base/', *ENGINE_INTERFACE, 'server/telemetry/'), libraries=SERVER_LIBRARIES),
    'server/rpc/': Rule(
        own=('base/', *ENGINE_INTERFACE, 'engine/data/', 'server/codec/', 'server/lifecycle/',
             'server/telemetry/', *PROTO_PREFIXES),
        libraries=SERVER_LIBRARIES),
    'server/': Rule(
        own=('base/', 'engine/', 'server/', *PROTO_PREFIXES), libraries=SERVER_LIBRARIES),

    'client/cpp/': Rule(own=('base/', *PROTO_PREFIXES), libraries=CLIENT_LIBRARIES),
    'client/cli/': Rule(own=('base/', 'client/cpp/', *PROTO_PREFIXES), libraries=CLIENT_LIBRARIES),
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
        if pathlib.PurePosixPath(include).parent == pathlib.PurePosixPath(path).parent:
            return None
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
