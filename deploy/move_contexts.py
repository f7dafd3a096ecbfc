#!/usr/bin/env python3
"""Copies contexts between data folders when servers behind Envoy are added or removed.

The ring in deploy/envoy/servers.yaml assigns each context to a server, by the ID of the context. If
the ring changes, it assigns some contexts to other servers, whose data folders must then have them.

  move_contexts.py owner --servers A,B,C [ID...]
      prints "SERVER ID" for each ID, or for each line of standard input

  move_contexts.py copy --servers A,B,C,D --server D --into FOLDER FROM_FOLDER...
      copies the contexts of server D from the data folders of other servers into the data folder of
      D, which is created if it does not exist. No server may use FOLDER in the meantime; the
      servers of the FROM_FOLDERs may run. Contexts that are already in FOLDER do not change

  move_contexts.py strangers --servers A,B,C,D --server A FOLDER OTHER_FOLDER...
      prints the IDs of contexts in the FOLDER of server A that the ring assigns to other servers,
      and that one of the OTHER_FOLDERs has. These contexts can be deleted from A

--servers lists all hash keys in servers.yaml, in any order. --places is minimum_ring_size divided
by the number of servers. Requires the Python package xxhash (Debian: python3-xxhash).

Exit status: 0 on success; 1 if a context was not copied, or if no other folder has it (the context
is printed); 2 for invalid usage or folders.
"""

import argparse
import bisect
import contextlib
import fcntl
import hashlib
import os
import pathlib
import sqlite3
import sys
import urllib.parse
from collections.abc import Iterator

try:
    import xxhash
except ImportError:  # --help works without it
    xxhash = None

# The identity of contexts.db (engine/store/context_table.cc and context_table.h).
APPLICATION_ID = 0x43484F52
SCHEMA_VERSION = 4
PLACES = 1024


class Unusable(Exception):
    """An invalid folder or argument."""


# ---- The ring -------------------------------------------------------------------------------


class Ring:
    """Envoy's ring: each server has `places` points, the hashes of KEY_0, KEY_1 and so on.
    An ID belongs to the server of the first point that is not below the hash of the ID."""

    def __init__(self, servers: list[str], places: int = PLACES) -> None:
        if xxhash is None:
            raise Unusable('the Python package xxhash is missing (Debian: python3-xxhash)')
        points = sorted((xxhash.xxh64_intdigest(f'{server}_{i}'.encode()), server)
                        for server in servers for i in range(places))
        self._hashes = [point for point, _ in points]
        self._servers = [server for _, server in points]

    def owner(self, context_id: str) -> str:
        at = bisect.bisect_left(self._hashes, xxhash.xxh64_intdigest(context_id.encode()))
        return self._servers[at % len(self._servers)]


# ---- Data folders ---------------------------------------------------------------------------


def dataset_path(folder: pathlib.Path, tenant: str, digest: str) -> pathlib.Path:
    key = hashlib.sha256(f'{tenant}\0{digest}'.encode()).hexdigest()
    return folder / 'datasets' / key[:2] / f'{key}.dataset'


def check_identity(database: sqlite3.Connection, schema: str, path: pathlib.Path) -> None:
    application = database.execute(f'PRAGMA {schema}.application_id').fetchone()[0]
    version = database.execute(f'PRAGMA {schema}.user_version').fetchone()[0]
    if (application, version) != (APPLICATION_ID, SCHEMA_VERSION):
        raise Unusable(f'{path}: not a database of contexts with schema version {SCHEMA_VERSION}')


def read_only(folder: pathlib.Path) -> str:
    path = folder / 'contexts.db'
    if not path.is_file():
        raise Unusable(f'{path}: no such file')
    return f'file:{urllib.parse.quote(os.fspath(path.resolve()))}?mode=ro'


def digests(folder: pathlib.Path) -> dict[tuple[str, str], tuple[str, str]]:
    """Returns (tenant, ID) -> (digest, model) of all contexts in a folder."""
    with contextlib.closing(sqlite3.connect(read_only(folder), uri=True)) as database:
        check_identity(database, 'main', folder)
        rows = database.execute('SELECT tenant, name, digest, model FROM contexts ORDER BY name')
        return {(tenant, name): (digest, model) for tenant, name, digest, model in rows}


@contextlib.contextmanager
def exclusive(folder: pathlib.Path) -> Iterator[None]:
    """Locks a data folder as a server does."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / 'LOCK', os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise Unusable(f'{folder}: a server uses this folder; stop it first') from error
    try:
        yield
    finally:
        os.close(lock)


def sync_folder(path: pathlib.Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def copy_dataset(source: pathlib.Path, target: pathlib.Path, digest: str) -> None:
    """Copies a dataset durably. Raises FileNotFoundError, or Unusable for a damaged file."""
    content = source.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise Unusable(f'{source}: the content does not match its digest')
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = target.with_suffix('.part')
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'wb') as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    part.rename(target)
    sync_folder(target.parent)
    sync_folder(target.parent.parent)


def open_target(folder: pathlib.Path, source: str) -> sqlite3.Connection:
    """Opens the target's database, and attaches the source's. A new database gets its schema."""
    database = sqlite3.connect(folder / 'contexts.db', uri=True, isolation_level=None)
    database.execute('PRAGMA synchronous = FULL')
    database.execute('PRAGMA foreign_keys = ON')
    database.execute('ATTACH ? AS source', (source,))
    if not database.execute('SELECT count(*) FROM main.sqlite_schema').fetchone()[0]:
        check_identity(database, 'source', folder)
        statements = [sql for (sql,) in database.execute(
            "SELECT sql FROM source.sqlite_schema WHERE sql NOT NULL ORDER BY type = 'index'")]
        database.execute('BEGIN IMMEDIATE')
        for statement in statements:
            database.execute(statement)
        database.execute(f'PRAGMA main.application_id = {APPLICATION_ID}')
        database.execute(f'PRAGMA main.user_version = {SCHEMA_VERSION}')
        database.execute('COMMIT')
    return database


def copy_from(source: pathlib.Path, target: pathlib.Path, ring: Ring, server: str) -> list[str]:
    """Copies the contexts of `server`, and returns an error for each that was not copied."""
    problems = []
    copied = unchanged = 0
    with contextlib.closing(open_target(target, read_only(source))) as database:
        check_identity(database, 'main', target)
        check_identity(database, 'source', source)
        database.execute('BEGIN IMMEDIATE')
        rows = database.execute(
            'SELECT tenant, name, digest, model FROM source.contexts').fetchall()
        for tenant, name, digest, model in rows:
            if ring.owner(name) != server:
                continue
            there = database.execute(
                'SELECT digest, model FROM main.contexts WHERE tenant = ? AND name = ?',
                (tenant, name)).fetchone()
            if there == (digest, model):
                unchanged += 1
                continue
            if there is not None:
                problems.append(f'{name}: {target} has different content under this name')
                continue
            try:
                copy_dataset(dataset_path(source, tenant, digest),
                             dataset_path(target, tenant, digest), digest)
            except FileNotFoundError:
                problems.append(f'{name}: its dataset is missing in {source}; '
                                'the context may have been deleted')
                continue
            except Unusable as error:
                problems.append(f'{name}: {error}')
                continue
            database.execute(
                'INSERT OR IGNORE INTO main.datasets SELECT * FROM source.datasets'
                ' WHERE tenant = ? AND digest = ?', (tenant, digest))
            database.execute(
                'INSERT INTO main.contexts SELECT * FROM source.contexts'
                ' WHERE tenant = ? AND name = ?', (tenant, name))
            database.execute(
                'INSERT INTO main.summaries SELECT * FROM source.summaries'
                ' WHERE tenant = ? AND name = ?', (tenant, name))
            copied += 1
        database.execute('COMMIT')
    sync_folder(target)
    print(f'{source}: {len(rows)} contexts, {copied} copied, {unchanged} already there')
    return problems


# ---- Commands -------------------------------------------------------------------------------


def command_owner(arguments: argparse.Namespace, ring: Ring) -> int:
    for context_id in arguments.ids or (line.strip() for line in sys.stdin):
        print(ring.owner(context_id), context_id)
    return 0


def command_copy(arguments: argparse.Namespace, ring: Ring) -> int:
    problems = []
    with exclusive(arguments.into):
        for source in arguments.folders:
            problems += copy_from(source, arguments.into, ring, arguments.server)
    for problem in problems:
        print(f'not copied: {problem}', file=sys.stderr)
    return 1 if problems else 0


def command_strangers(arguments: argparse.Namespace, ring: Ring) -> int:
    others = [digests(folder) for folder in arguments.others]
    missing = 0
    for key, content in digests(arguments.folder).items():
        owner = ring.owner(key[1])
        if owner == arguments.server:
            continue
        if any(other.get(key) == content for other in others):
            print(key[1])
        else:
            print(f'keep: {key[1]} belongs to {owner}, but no other folder has it', file=sys.stderr)
            missing += 1
    return 1 if missing else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    owner = commands.add_parser('owner')
    owner.set_defaults(run=command_owner)
    owner.add_argument('ids', nargs='*')
    copy = commands.add_parser('copy')
    copy.set_defaults(run=command_copy)
    copy.add_argument('--into', type=pathlib.Path, required=True)
    copy.add_argument('folders', type=pathlib.Path, nargs='+')
    strangers = commands.add_parser('strangers')
    strangers.set_defaults(run=command_strangers)
    strangers.add_argument('folder', type=pathlib.Path)
    strangers.add_argument('others', type=pathlib.Path, nargs='+')
    for command in (copy, strangers):
        command.add_argument('--server', required=True)
    for command in (owner, copy, strangers):
        command.add_argument('--servers', required=True, type=lambda text: text.split(','))
        command.add_argument('--places', type=int, default=PLACES)
    parsed = parser.parse_args(arguments)
    if getattr(parsed, 'server', None) not in (None, *parsed.servers):
        parser.error(f'--server: {parsed.server} is not in --servers')
    return parsed


def main() -> int:
    arguments = parse(None)
    try:
        return arguments.run(arguments, Ring(arguments.servers, arguments.places))
    except (Unusable, OSError, sqlite3.Error) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == '__main__':
    sys.exit(main())
