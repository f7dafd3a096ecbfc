#!/usr/bin/env python3
"""Runs deploy/prometheus and deploy/grafana for real: Prometheus and Alertmanager of the distribution
scrape two servers under load, every panel of every dashboard has data, and in drills the right alert
is sent, and no critical one besides.

Usage: monitoring_test.py [--pictures FOLDER] [--only-self-test] [TEST...]

Needs the programs of fetch_prometheus.sh in build/monitoring, PyYAML, a build of the server and the
client, and for --pictures matplotlib; one drill mounts a tmpfs, as root. Times of the rules are divided
by 30 (monitoring_processes.py). Figures go to standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import math
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator, Sequence

from fake_exporter import EDGE_METRICS, FakeExporter
from monitoring_processes import FACTOR, ROOT, Monitoring, Notice, Server, stop, wait_until
from stalled_client import StalledClient

sys.path.insert(0, os.fspath(ROOT / 'deploy/grafana'))

# pylint: disable=wrong-import-position
from make_dashboards import DASHBOARDS  # noqa: E402
from queries import Prometheus, fill_in, load, panel_queries  # noqa: E402
from service_dashboard import EDGE_PANELS  # noqa: E402

PENGUINS = ROOT / 'datasets/penguins.csv'
HELDOUT = ROOT / 'datasets/penguins_heldout.csv'
GPU_PANELS = {'GPU memory', 'Duration of restoring'}  # they have data only on a GPU
# These, only with Envoy in front: edge_test.py holds the names of its metrics to a real one.
EDGE_TITLES = {panel.body['title'] for panel in EDGE_PANELS}
LOAD_SECONDS = 60
THOUSAND = 1000
BACKLOG_HIGH = 30  # seconds, as the rule has it
pictures: pathlib.Path | None = None
table: list[tuple[str, str, str, float]] = []


def figure(text: str) -> None:
    print(f'  {text}', flush=True)


def panels_without_data(source: Prometheus, seconds: float, also: Sequence[str] = ()) -> list[str]:
    """Queries of panels that have no number in the last `seconds`."""
    end = time.time()
    missing = []
    for name in DASHBOARDS:
        for query in panel_queries(load(name)):
            if query.panel in also:
                continue
            expr = fill_in(query.expr, '10s', f'{round(seconds)}s')
            if query.kind == 'table':
                values = [one['value'][1] for one in source.now(expr, end)]
            else:
                values = [value for one in source.over(expr, end - seconds, end, 2)
                          for _, value in one['values']]
            if not any(math.isfinite(float(value)) for value in values):
                missing.append(f'{name}: {query.panel}: {expr}')
    return missing


def draw(source: str, minutes: float) -> None:
    if pictures is not None:
        subprocess.run([sys.executable, ROOT / 'deploy/grafana/draw.py', '--prometheus', source,
                        '--minutes', str(minutes), '--rate-interval', '10s', '--out', pictures],
                       check=True)


class SelfTest(unittest.TestCase):
    """The machinery, with exporters that have all metrics."""

    def test_panels_have_data_and_a_missing_metric_is_noticed(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            full, edge = FakeExporter(), FakeExporter(EDGE_METRICS)
            stack.callback(full.close)
            stack.callback(edge.close)
            edges = [f'127.0.0.1:{edge.port}']
            monitoring = Monitoring(pathlib.Path(folder) / 'full', [f'127.0.0.1:{full.port}'],
                                    edges)
            stack.callback(monitoring.close)
            part = FakeExporter(without=['chorale_backlog_seconds', 'chorale_tenant_values_total'])
            stack.callback(part.close)
            other = Monitoring(pathlib.Path(folder) / 'part', [f'127.0.0.1:{part.port}'],
                               edges)
            stack.callback(other.close)
            time.sleep(20)
            self.assertEqual(panels_without_data(Prometheus(monitoring.address), 15), [])
            missing = panels_without_data(Prometheus(other.address), 15)
            self.assertGreaterEqual(len(missing), 4)
            for line in missing:
                self.assertRegex(line, 'chorale_backlog_seconds|chorale_tenant_values_total')

    def test_an_alert_reaches_its_receiver(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            good, bad = FakeExporter(), FakeExporter()
            stack.callback(good.close)
            targets = [f'127.0.0.1:{one.port}' for one in (good, bad)]
            monitoring = Monitoring(pathlib.Path(folder), targets)
            stack.callback(monitoring.close)
            time.sleep(5)
            start = time.time()
            bad.close()
            wait_until('ChoraleDown is sent', lambda: any(
                one.name == 'ChoraleDown' for one in monitoring.receiver.firing_since(start)))
            [down] = [one for one in monitoring.receiver.firing_since(start)
                      if one.name == 'ChoraleDown']
            self.assertEqual((down.receiver, down.labels['instance']), ('page', targets[1]))
            self.assertIn(targets[1], down.annotations['description'])


# ---- Servers --------------------------------------------------------------------------------


class Load:
    """Callers without a pause, of all methods on a context and then on another one, or of Predict on
    another one each time; the contexts are tables of penguins."""

    def __init__(self, server: Server, contexts: list[str], callers: int = 2,
                 predict_only: bool = False) -> None:
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(server, contexts, seed, predict_only))
            for seed in range(callers)]
        for thread in self._threads:
            thread.start()

    def _run(self, server: Server, contexts: list[str], seed: int, predict_only: bool) -> None:
        order = random.Random(seed)
        while not self._stopping.is_set():
            context = order.choice(contexts)
            server.client('predict', context, HELDOUT)
            if predict_only:
                continue
            for call in (('sample', context, HELDOUT, '--paths', 64),
                         ('log-density', context, HELDOUT), ('warm', context), ('show', context),
                         ('ls',), ('models',), ('predict', 'no-such-table', HELDOUT)):
                server.client(*call)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()


def tables(folder: pathlib.Path, count: int) -> list[pathlib.Path]:
    """Tables that differ, so that each is a context of its own."""
    with open(PENGUINS, encoding='utf-8', newline='') as file:
        header, *rows = csv.reader(file)
    paths = []
    for i in range(count):
        path = folder / f'table-{i}.csv'
        with open(path, 'w', encoding='utf-8', newline='') as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows[i:i + 200])
        paths.append(path)
    return paths


class ServersTest(unittest.TestCase):
    """Server "a" is in trouble in each drill; "b" goes on, and nothing is said about it."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix='chorale-monitoring-')
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.tables = tables(cls.folder, 20)
        flags = ['--threads=1', '--registration_memory_mib=64', '--stalled_write_timeout=2s',
                 '--buffer_pool_mib=128', '--memory_limit_mib=2000']
        cls.a = Server(cls.folder, 'a', *flags)
        quotas = cls.folder / 'tenants.yaml'
        quotas.write_text('others: {max_contexts: 6}', encoding='utf-8')
        cls.b = Server(cls.folder, 'b', *flags, '--context_pool_mib=128', f'--tenant_file={quotas}')
        for server in (cls.a, cls.b):
            cls.addClassCleanup(server.close)
        cls.a.start('--context_pool_mib=128')
        cls.b.start()
        cls.monitoring = Monitoring(cls.folder / 'monitoring', [cls.a.instance, cls.b.instance])
        cls.addClassCleanup(cls.monitoring.close)
        cls.source = Prometheus(cls.monitoring.address)
        for server in (cls.a, cls.b):
            cls.register(server, 6)
        # So that the alerts which need a past have one.
        time.sleep(5)

    @classmethod
    def register(cls, server: Server, count: int) -> list[str]:
        names = []
        for path in cls.tables[:count]:
            done = server.client('register', path, '--target', 'body_mass_g', '--name', path.stem)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            names.append(path.stem)
        return names

    def restart_a(self, *flags: str) -> None:
        """`a` as it was, or with other flags, and no alert left but that it restarts often."""
        self.a.close()
        self.a.start(*(flags or ('--context_pool_mib=128',)))
        self.wait_for_quiet()

    def wait_for_quiet(self) -> None:
        wait_until('no alert fires', lambda: not [
            one for one in self.source.alerts() if one['state'] == 'firing' and
            one['labels']['severity'] != 'info' and
            one['labels']['alertname'] != 'ChoraleRestarts'], 150)

    @contextlib.contextmanager
    def drill(self, cause: str, alert: str) -> Iterator[None]:
        """The body causes it and stays in it until the alert is there (see wait_for)."""
        self.wait_for_quiet()
        self.started = time.time()
        yield
        notices = self.monitoring.receiver.firing_since(self.started)
        first = min(one.at for one in notices if one.name == alert)
        [severity] = {one.labels['severity'] for one in notices if one.name == alert}
        table.append((cause, alert, severity, first - self.started))
        self.assertEqual({one.name for one in notices if one.labels['severity'] == 'critical'} -
                         {alert}, set())
        for notice in notices:
            self.check(notice)

    def check(self, notice: Notice) -> None:
        self.assertEqual(notice.receiver, {'critical': 'page', 'warning': 'ticket'}[
            notice.labels['severity']])
        self.assertNotIn(self.b.instance, notice.labels.get('instance', ''))
        for text in notice.annotations.values():
            self.assertNotRegex(text, '<no value>|error|%!')

    def is_sent(self, alert: str) -> bool:
        return any(one.name == alert
                   for one in self.monitoring.receiver.firing_since(self.started))

    def wait_for(self, alert: str, patience: float = 90) -> None:
        wait_until(f'{alert} is sent', lambda: self.is_sent(alert), patience)

    # ---- The dashboards under load ----

    def test_0_every_panel_has_data(self) -> None:
        contexts = [path.stem for path in self.tables[:6]]
        loads = [Load(server, contexts) for server in (self.a, self.b)]
        on_gpu = 'chorale_backend_info{backend="cuda"' in self.a.metrics()
        skipped = sorted(EDGE_TITLES | (set() if on_gpu else GPU_PANELS))
        try:
            start = time.time()
            missing: list[str] = []
            while time.time() < start + LOAD_SECONDS or (
                    missing and time.time() < start + 4 * LOAD_SECONDS):
                path = self.tables[10]
                self.a.use_passing_contexts(path)
                self.b.client('register', path, '--target', 'body_mass_g')  # beyond its quota
                missing = panels_without_data(self.source, 40, skipped)
            self.assertEqual(missing, [])
            figure(f'{sum(len(list(panel_queries(load(name)))) for name in DASHBOARDS)} queries of '
                   f'panels have data, except: {", ".join(skipped)}')
            draw(self.monitoring.address, LOAD_SECONDS / 60)
        finally:
            for one in loads:
                one.stop()
        critical = [one for one in self.monitoring.receiver.notices
                    if one.labels['severity'] == 'critical']
        self.assertEqual(critical, [])

    # ---- Many contexts ----

    def test_a_scrape_with_a_thousand_contexts(self) -> None:
        server = Server(self.folder, 'c', '--threads=1')
        self.addCleanup(server.close)
        server.start()
        [first] = self.register(server, 1)
        server.client('warm', first)

        def scrape() -> tuple[str, float]:
            """The page, and the median of the seconds that 50 of them take."""
            taken = []
            for _ in range(50):
                began = time.monotonic()
                page = server.metrics()
                taken.append(time.monotonic() - began)
            return page, statistics.median(taken)

        few, seconds_few = scrape()
        header, *rows = PENGUINS.read_text(encoding='utf-8').splitlines()
        path = self.folder / 'one_of_many.csv'
        for i in range(1, THOUSAND):
            path.write_text('\n'.join([header, *rows[i % 250:i % 250 + 20 + i // 250]]),
                            encoding='utf-8')
            for call in (('register', path, '--target', 'body_mass_g', '--name', f'one-{i}'),
                         ('warm', f'one-{i}')):
                done = server.client(*call)
                self.assertEqual(done.returncode, 0, done.stderr)
        many, seconds_many = scrape()
        self.assertEqual(server.metric('chorale_registered_contexts'), THOUSAND)
        figure(f'a scrape with 1 context takes {1e3 * seconds_few:.1f} ms for {len(few)} bytes, with '
               f'{THOUSAND} contexts {1e3 * seconds_many:.1f} ms for {len(many)} bytes')

        def names(page: str) -> set[str]:
            return {line.rsplit(' ', 1)[0] for line in page.splitlines()}

        # None for a context: what is kept of a server does not grow with what its users register.
        self.assertEqual(names(many) - names(few), set())

    # ---- Drills ----

    def test_killed_server(self) -> None:
        with self.drill('server killed (SIGKILL)', 'ChoraleDown'):
            self.a.process.kill()
            self.wait_for('ChoraleDown')
        self.restart_a()

    def test_slow_clients(self) -> None:
        clients: list[StalledClient] = []
        try:
            with self.drill('8 clients do not read their answers', 'ChoraleStalledStreams'):
                clients += [StalledClient(self.a.port) for _ in range(8)]
                self.wait_for('ChoraleStalledStreams')
        finally:
            for client in clients:
                client.close()

    def test_overload(self) -> None:
        clients: list[subprocess.Popen[bytes]] = []

        def backlog() -> float:
            """In seconds, of a server that has more to do whenever it is short: some machines draw
            5,000 values a second, some many more."""
            seconds = self.a.metric('chorale_backlog_seconds')
            if seconds < 2 * BACKLOG_HIGH and len(clients) < 50:
                clients.append(self.a.client_in_background(
                    'sample', 'table-0', HELDOUT, '--paths', 16384, '--summary'))
            return seconds

        try:
            with self.drill('callers draw 400,000 values each', 'ChoraleBacklogHigh'):
                began = time.monotonic()
                wait_until('the backlog has risen', lambda: backlog() > BACKLOG_HIGH)
                figure(f'a backlog of {BACKLOG_HIGH} s stands in the metrics '
                       f'{time.monotonic() - began:.2f} s after the callers began')
                wait_until('ChoraleBacklogHigh is sent',
                           lambda: backlog() > 0 and self.is_sent('ChoraleBacklogHigh'), 90)
        finally:
            for client in clients:
                stop(client)

    def test_eviction_storm(self) -> None:
        # A context of 200 rows takes 2.4 MiB: three fit, twelve are asked for in turn.
        self.restart_a('--context_pool_mib=8')
        self.register(self.a, 12)
        with self.drill('context pool of 8 MiB, 12 tables in turn', 'ChoraleEvictionStorm'):
            load_on_a = Load(self.a, [path.stem for path in self.tables[:12]], callers=3,
                             predict_only=True)
            try:
                self.wait_for('ChoraleEvictionStorm', 150)
            finally:
                load_on_a.stop()
        self.restart_a()

    def test_drain(self) -> None:
        client = None
        try:
            with self.drill('SIGTERM with a long stream', 'ChoraleDrainingTooLong'):
                client = self.a.client_in_background('sample', 'table-0', HELDOUT, '--paths', 16384)
                wait_until('the stream is there', lambda: 'chorale_streams_live 1' in
                           self.a.metrics())
                self.a.process.terminate()
                self.wait_for('ChoraleDrainingTooLong')
        finally:
            stop(client)
        self.a.process.wait(60)
        self.restart_a()

    def test_full_disk(self) -> None:
        if os.geteuid() != 0:
            self.skipTest('mounting needs root')
        self.a.close()
        disk = self.folder / 'disk'
        disk.mkdir()
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=3g', 'tmpfs', disk], check=True)
        before = self.a.data
        try:
            self.a.data = disk / 'data'
            self.restart_a()
            with self.drill('data disk full', 'ChoraleDataDiskFull'):
                free = shutil.disk_usage(disk).free
                with open(disk / 'filler', 'wb') as file:
                    os.posix_fallocate(file.fileno(), 0, free - 8192)
                failed = self.a.client('register', self.tables[0], '--target', 'body_mass_g')
                self.assertNotEqual(failed.returncode, 0)
                self.wait_for('ChoraleDataDiskFull')
            # Room again, and the same call succeeds without a restart.
            (disk / 'filler').unlink()
            self.register(self.a, 1)
        finally:
            self.a.close()
            subprocess.run(['umount', disk], check=True)
            self.a.data = before
            self.restart_a()

    @classmethod
    def tearDownClass(cls) -> None:
        if table:
            figure(f'drills (times of the rules divided by {FACTOR}):')
            for cause, alert, severity, seconds in table:
                figure(f'| {cause} | {alert} | {severity} | {seconds:.1f} s |')


def main() -> None:
    global pictures  # pylint: disable=global-statement
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--pictures', type=pathlib.Path)
    parser.add_argument('--only-self-test', action='store_true')
    options, rest = parser.parse_known_args()
    pictures = options.pictures
    if options.only_self_test:
        rest.append('SelfTest')
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == '__main__':
    main()
