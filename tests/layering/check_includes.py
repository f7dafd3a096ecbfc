#!/usr/bin/env python3
"""Checks which folder includes which, what each includes of third parties, and that no folders
include each other in a circle.

Usage: check_includes.py [ROOT]     prints one line per violation, exits 1 if there is any.

The linker cannot check this, because every header is reachable from the repository's root. An edge
that is not in FOLDERS is refused: a new one is a decision, made by a change of this file.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
SOURCE_SUFFIXES = {'.h', '.cc', '.cu', '.cuh'}
AREAS = ('base/', 'kernels/', 'engine/', 'server/', 'client/')
# Generated from proto/, and found through the include path of the build folder.
PROTO_PREFIXES = ('chorale/v1/', 'google/rpc/', 'grpc/reflection/', 'opentelemetry/proto/')

# What the files of each folder may include: folders (the files directly in them), single headers,
# and "proto" for generated code. Every folder may include itself and base.
FOLDERS = {
    'base': '',

    'kernels/ops': '',
    'kernels/cpu': 'kernels/ops',
    'kernels/cuda/layout': '',
    'kernels/cuda/ptx': 'kernels/cuda/layout',
    'kernels/cuda/runtime': '',
    'kernels/cuda/attention':
        'kernels/cuda/layout kernels/cuda/ptx kernels/cuda/runtime kernels/ops',
    'kernels/cuda/layer':
        'kernels/cuda/attention kernels/cuda/embed kernels/cuda/layout kernels/cuda/ptx '
        'kernels/cuda/runtime kernels/ops',
    'kernels/cuda/embed': 'kernels/cuda/layout kernels/cuda/ptx kernels/cuda/runtime kernels/ops',
    'kernels/cuda/head': 'kernels/cuda/layout kernels/cuda/ptx kernels/cuda/runtime kernels/ops',
    'kernels/cuda/gemm': 'kernels/cuda/layout kernels/cuda/ptx kernels/cuda/runtime kernels/ops',
    'kernels/cuda/unfused':
        'kernels/cuda/attention kernels/cuda/layer kernels/cuda/layout kernels/cuda/ptx '
        'kernels/cuda/runtime kernels/ops',
    'kernels/cuda/memory_set':
        'kernels/cuda/attention kernels/cuda/layout kernels/cuda/ptx kernels/cuda/runtime '
        'kernels/ops',
    'kernels/cuda/row_encoder':
        'kernels/cuda/attention kernels/cuda/layout kernels/cuda/ptx kernels/cuda/runtime '
        'kernels/ops',

    'engine/model': 'kernels/ops',
    'engine/data': 'engine/model/model_config.h',
    'engine/store': 'engine/data',
    'engine/backend':
        'engine/data engine/model kernels/ops/panel_layout.h kernels/ops/random.h '
        'kernels/ops/spread_keys.h',
    'engine/backend/host': 'engine/model kernels/ops',
    'engine/backend/row_encoder':
        'engine/backend engine/backend/host engine/data engine/model kernels/ops',
    'engine/backend/cpu':
        'engine/backend engine/backend/host engine/backend/row_encoder engine/data engine/model '
        'kernels/cpu/target.h kernels/ops',
    'engine/backend/cuda/device': 'engine/backend/backend.h kernels/cuda/runtime',
    'engine/backend/cuda/row_encoder':
        'engine/backend engine/backend/cuda/device engine/backend/host engine/backend/row_encoder '
        'engine/data engine/model kernels/cuda/row_encoder kernels/cuda/runtime kernels/ops',
    'engine/backend/cuda':
        'engine/backend engine/backend/cuda/device engine/backend/cuda/row_encoder '
        'engine/backend/host engine/data engine/model kernels/cuda/attention kernels/cuda/embed '
        'kernels/cuda/head kernels/cuda/layer kernels/cpu/target.h kernels/cuda/layout '
        'kernels/cuda/gemm kernels/cuda/memory_set kernels/cuda/runtime kernels/cuda/unfused '
        'kernels/ops',
    'engine/backend/cuda_plugin': 'engine/backend/backend.h engine/backend/cuda/backend.h',
    # Only engine/composition and the server may include all of it: nothing below has engine.h.
    'engine/api': 'engine/backend/backend.h engine/data engine/model engine/store',
    'engine/pools': 'engine/backend/backend.h',
    'engine/context':
        'engine/api/metrics_sink.h engine/api/model_info.h engine/api/request.h '
        'engine/api/stats.h engine/backend/backend.h engine/backend/encode_blocks.h '
        'engine/backend/flop_model.h engine/backend/memory_plan.h engine/data engine/pools '
        'engine/model engine/store',
    'engine/session':
        'engine/api/call.h engine/api/call_context.h engine/api/call_report.h '
        'engine/api/metrics_sink.h engine/api/request.h engine/backend/backend.h '
        'engine/backend/flop_model.h engine/context engine/data engine/pools engine/model '
        'kernels/ops',
    'engine/scheduling':
        'engine/api/call_context.h engine/api/engine_options.h engine/api/metrics_sink.h '
        'engine/api/stats.h engine/backend/backend.h engine/context engine/pools engine/session',
    'engine/composition':
        'engine/api engine/context engine/data/live_limits.h engine/scheduling engine/session '
        'engine/store/context_store.h',

    'server/config': '',
    'server/telemetry': 'engine/api',
    'server/tracing': 'engine/api proto server/telemetry',
    'server/process': 'server/telemetry',
    'server/net': 'server/telemetry',
    'server/codec': 'engine/api engine/data proto server/telemetry',
    'server/security': 'server/config server/net server/telemetry',
    'server/rpc':
        'engine/api engine/data proto server/codec server/net server/process server/security '
        'server/telemetry server/tracing',
    'server/options':
        'engine/api engine/backend/cpu/backend.h engine/data server/config server/process '
        'server/security server/telemetry',
    'server/models':
        'engine/api engine/model server/config server/process server/security server/telemetry',
    'server/memory':
        'engine/api engine/backend/backend.h engine/backend/cpu/backend.h server/models '
        'server/options server/telemetry',
    'server':
        'engine/api engine/data engine/model server/config server/memory server/models server/net '
        'server/options server/process server/rpc server/security server/telemetry server/tracing',
    # The only folder of the server that includes the implementation of the engine.
    'server/app':
        'engine/api engine/backend/backend.h engine/backend/cpu/backend.h '
        'engine/backend/cuda_plugin/load_cuda_backend.h engine/model engine/store server '
        'server/config server/memory server/models server/net server/options server/process '
        'server/telemetry',

    'client/cpp': 'proto',
    'client/cli': 'client/cpp proto',
}

# What each folder may include of third parties: that of the longest prefix of it. Entries that end
# in '/' are prefixes. The C++ standard library is open to all.
POSIX = ('arpa/', 'dlfcn.h', 'fcntl.h', 'linux/filter.h', 'netinet/', 'poll.h', 'pthread.h',
         'sched.h', 'signal.h', 'sys/', 'unistd.h')
LIBRARIES = {
    'base': ('absl/', 'unistd.h', 'utf8proc.h'),
    'kernels': ('absl/status/', 'absl/strings/'),
    'kernels/ops': ('Random123/', 'absl/status/', 'absl/strings/'),
    'kernels/cpu': ('absl/status/', 'absl/strings/', 'hwy/'),
    'kernels/cuda/gemm': ('absl/status/', 'absl/strings/', 'absl/time/', 'cublasLt.h', 'dlfcn.h'),
    'kernels/cuda/runtime': ('absl/status/', 'absl/strings/', 'cuda_runtime_api.h'),
    'engine': ('absl/', 'nlohmann/', 'openssl/', 'spdlog/', *POSIX),
    'engine/store': ('absl/', 'nlohmann/', 'openssl/', 'spdlog/', 'sqlite3.h', *POSIX),
    'server/config': ('absl/', 'yaml-cpp/', *POSIX),
    'server/security': ('absl/', 'grpc/', 'grpcpp/', 'openssl/', 'yaml-cpp/', *POSIX),
    'server': ('absl/', 'google/protobuf/', 'grpc/', 'grpcpp/', *POSIX),
    'server/app': ('absl/', *POSIX),
    'server/memory': ('absl/', 'malloc.h', *POSIX),
    'server/models': ('absl/', *POSIX),
    'server/net': ('absl/', 'grpcpp/', 'linux/tcp.h', 'netdb.h', *POSIX),
    'server/options': ('absl/', *POSIX),
    'server/process': ('absl/', 'grpc/', 'grpcpp/', 'spdlog/', *POSIX),
    'server/telemetry': ('absl/', 'grpc/', 'malloc.h', 'microhttpd.h', 'nlohmann/', 'prometheus/', 'spdlog/', *POSIX),
    'client/cpp': ('absl/', 'csv.h', 'google/protobuf/', 'grpc/', 'grpcpp/', 'netdb.h', 'openssl/', *POSIX),
    'client/cli': ('CLI/', 'absl/', 'nlohmann/', 'openssl/', *POSIX),
}


def folder_of(path):
    return path.rpartition('/')[0]


def is_standard(include):
    """C++ standard headers have neither a folder nor a suffix."""
    return '/' not in include and '.' not in include


def may_use_library(folder, include):
    while folder not in LIBRARIES:
        folder = folder_of(folder)
        if not folder:
            return False
    return any(include.startswith(name) if name.endswith('/') else include == name
               for name in LIBRARIES[folder])


def problem(folder, include, root):
    """What is wrong with a file of `folder` that includes `include`, or None."""
    allowed = FOLDERS[folder].split()
    if include.startswith(PROTO_PREFIXES):
        return None if 'proto' in allowed else f'must not include "{include}"'
    if include.startswith((*AREAS, 'tests/')):
        if not (root / include).is_file():
            return f'includes "{include}", which does not exist'
        if folder_of(include) in (folder, 'base', *allowed) or include in allowed:
            return None
        return f'must not include "{include}"'
    if is_standard(include) or may_use_library(folder, include):
        return None
    return f'must not include <{include}>'


def includes_of(file):
    """Pairs of line number and included name."""
    for number, line in enumerate(file.read_text(encoding='utf-8').splitlines(), start=1):
        found = INCLUDE.match(line)
        if found is not None:
            yield number, found.group(1) or found.group(2)


def find_cycle(edges):
    """The folders of one cycle, the first of them again at the end, or None.

    edges: folder -> the folders that it includes.
    """
    done = set()

    def visit(folder, path):
        if folder in path:
            return [*path[path.index(folder):], folder]
        if folder in done:
            return None
        for target in sorted(edges.get(folder, ())):
            cycle = visit(target, [*path, folder])
            if cycle is not None:
                return cycle
        done.add(folder)
        return None

    return next(filter(None, (visit(folder, []) for folder in sorted(edges))), None)


def check_tree(root):
    """All violations under `root`, as 'path:line: what'; a cycle as 'cycle: a -> b -> a'."""
    root = pathlib.Path(root)
    violations = []
    edges = {}
    for file in sorted(file for area in AREAS for file in (root / area).rglob('*')):
        if file.suffix not in SOURCE_SUFFIXES:
            continue
        path = file.relative_to(root).as_posix()
        folder = folder_of(path)
        if folder not in FOLDERS:
            violations.append(f'{path}:1: FOLDERS of check_includes.py has no entry for {folder}')
            continue
        for number, include in includes_of(file):
            wrong = problem(folder, include, root)
            if wrong is not None:
                violations.append(f'{path}:{number}: {wrong}')
            if include.startswith(AREAS) and folder_of(include) != folder:
                edges.setdefault(folder, set()).add(folder_of(include))
    cycle = find_cycle(edges)
    if cycle is not None:
        violations.append('cycle: ' + ' -> '.join(cycle))
    return violations


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    violations = check_tree(root)
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == '__main__':
    sys.exit(main())
