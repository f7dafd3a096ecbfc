#!/usr/bin/env python3
"""Digests of a server's answers, to show that a change of the code changes no bit of them.

    tests/tools/answer_digests.py --server build/release/server/chorale-server \\
        --client build/release/client/cli/chorale [--against OTHER_SERVER OTHER_CLIENT]

Starts the server, registers small tables that are made from a fixed seed, and prints a line for
each command, model and table: the first 16 digits of the SHA-256 of what `chorale COMMAND` writes.
With --against it does the same with the programs of another build, prints only the lines that
differ, and exits with status 1 if there are any.

Compare digests of one machine and one backend only: the CPU backend uses the vector instructions
that it finds. A library of the GPU backend belongs to one build, so each server opens its own: the
one in its build, or what --cuda_library and --against_cuda_library name.
"""

import argparse
import contextlib
import csv
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = [ROOT / folder
          for folder in ('models/default', 'tests/golden/golden_tiny', 'tests/golden/golden_base')]
SEED = 20261123
START_SECONDS = 300  # a GPU backend clears its memory, an emulated one slowly

# name: rows of the context, rows of the targets, numeric columns, whether there are categories and
# missing cells
TABLES = {'small': (97, 13, 1, False),
          'plain': (700, 31, 3, False),
          'mixed': (1300, 40, 6, True)}

# label: arguments of the client; 70 paths are three tiles, 9 and 5 a part of one
COMMANDS = {
    'predict': ['predict', '--quantiles', '0.1,0.5', '--mixture'],
    'sample': ['sample', '--paths', '70', '--seed', '5', '--log-density', '--wrap'],
    'sample-random': ['sample', '--paths', '9', '--seed', '6', '--order', 'random', '--log-density',
                      '--wrap'],
    'density': ['log-density', '--terms', '--wrap'],
    'density-random': ['log-density', '--orders', '5', '--seed', '3', '--wrap'],
    'density-tiles': ['log-density', '--orders', '70', '--seed', '4', '--wrap']}
# With --few: what an emulated GPU can do in a minute or two.
FEW_TABLES = ['small']
FEW_COMMANDS = {
    **{label: COMMANDS[label] for label in ('predict', 'sample-random', 'density')},
    'density-tiles': ['log-density', '--orders', '35', '--seed', '4', '--wrap']}


def write_table(path, rng, rows, numbers, mixed):
    """The target depends on all columns."""
    with open(path, 'w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file)
        writer.writerow([f'x{i}' for i in range(numbers)] + ['c'] * mixed + ['y'])
        for _ in range(rows):
            x = [rng.gauss(0, 1.5) for _ in range(numbers)]
            category = rng.choice('abcd')
            y = sum(x) / numbers + mixed * (ord(category) - ord('b')) + 0.3 * rng.gauss(0, 1)
            cells = ['' if mixed and rng.random() < 0.05 else repr(value) for value in x]
            writer.writerow(cells + [category] * mixed + [repr(y)])


def write_tables(folder):
    rng = random.Random(SEED)
    for name, (context_rows, target_rows, numbers, mixed) in TABLES.items():
        write_table(folder / f'{name}_context.csv', rng, context_rows, numbers, mixed)
        write_table(folder / f'{name}_rows.csv', rng, target_rows, numbers, mixed)


def await_serving(process, log):
    deadline = time.monotonic() + START_SECONDS
    while ' serving ' not in log.read_text(encoding='utf-8'):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f'{process.args[0]} does not serve:\n{log.read_text(encoding="utf-8")}')
        time.sleep(0.05)


@contextlib.contextmanager
def serving(server, cuda_library, options, folder):
    """The address of a server that runs within the `with` statement. `folder` is empty."""
    log, port_file = folder / 'log', folder / 'port'
    environment = dict(os.environ)
    if cuda_library:
        environment['CHORALE_CUDA_LIBRARY'] = os.path.abspath(cuda_library)
    with open(log, 'wb') as log_file:
        process = subprocess.Popen(
            [server, '--models=' + ','.join(map(str, options.models)), f'--data_dir={folder}/data',
             '--listen_address=127.0.0.1:0', '--metrics_address=127.0.0.1:0',
             f'--port_file={port_file}', f'--backend={options.backend}',
             f'--context_pool_mib={options.pool_mib}', f'--buffer_pool_mib={options.pool_mib}'],
            env=environment, stdout=log_file, stderr=log_file)
    try:
        await_serving(process, log)
        yield f'127.0.0.1:{port_file.read_text(encoding="utf-8").split()[0]}'
    finally:
        process.kill()
        process.wait()


def answers(server, client, cuda_library, options, tables):
    """Pairs of what is asked and the digest of the answer."""
    def ask(command, *arguments):
        answer = subprocess.run([client, '--server', address, command, *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if answer.returncode != 0:
            sys.exit(f'{" ".join(answer.args)}: {answer.stderr.decode()}')
        return hashlib.sha256(answer.stdout).hexdigest()[:16]

    with tempfile.TemporaryDirectory() as folder, \
            serving(server, cuda_library, options, pathlib.Path(folder)) as address:
        for model in (pathlib.Path(folder).name for folder in options.models):
            for table in FEW_TABLES if options.few else TABLES:
                context = f'{model}-{table}'
                ask('register', f'{tables}/{table}_context.csv', '--target', 'y', '--name', context,
                    '--model', model)
                commands = FEW_COMMANDS if options.few else COMMANDS
                for label, (command, *arguments) in commands.items():
                    digest = ask(command, context, f'{tables}/{table}_rows.csv', *arguments)
                    yield f'{label} {model} {table}', digest


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--server', required=True)
    parser.add_argument('--client', required=True)
    parser.add_argument('--models', nargs='+', metavar='FOLDER', default=MODELS)
    parser.add_argument('--backend', choices=['cpu', 'cuda'], default='cpu')
    parser.add_argument('--cuda_library', metavar='FILE')
    parser.add_argument('--pool_mib', type=int, default=512, help='of contexts, and of buffers')
    parser.add_argument('--few', action='store_true',
                        help='less of everything, for an emulated GPU')
    parser.add_argument('--against', nargs=2, metavar=('SERVER', 'CLIENT'))
    parser.add_argument('--against_cuda_library', metavar='FILE')
    return parser.parse_args(arguments)


def main(arguments):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the server too
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as folder:
        tables = pathlib.Path(folder)
        write_tables(tables)
        own = answers(options.server, options.client, options.cuda_library, options, tables)
        if options.against is None:
            for asked, digest in own:
                print(digest, asked, flush=True)
            return 0
        own = dict(own)
        other = dict(answers(*options.against, options.against_cuda_library, options, tables))
    different = [asked for asked in own if own[asked] != other[asked]]
    for asked in different:
        print(f'{own[asked]} {asked}, against {other[asked]}')
    print(f'{len(different)} of {len(own)} answers differ', file=sys.stderr)
    return 1 if different else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
