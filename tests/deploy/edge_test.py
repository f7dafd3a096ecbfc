#!/usr/bin/env python3
"""Runs deploy/envoy for real: three chorale servers behind it, 300 contexts, a server killed, one
added, all restarted, and a browser that calls by gRPC-Web; and its limits, in front of fake servers.

Usage: edge_test.py [TEST...]       needs the packages in requirements.txt, openssl, and a build of
the server and the client; the browser's part needs chromium. Figures go to standard output.
"""

import base64
import collections
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest

import grpc

from edge_case import EdgeTestCase
from edge_processes import (CLIENT, ENVOY, PATIENCE, RETRY, ROOT, Edge, FakeServer, Load, Outcome,
                            Server, about, error_details_pb2, free_ports, pb, pb_grpc, predict,
                            predict_request, registration, sample_request, status_pb2, stop,
                            wait_until)

sys.path.insert(0, os.fspath(ROOT / 'tests' / 'resilience'))
import http2  # noqa: E402  pylint: disable=wrong-import-position

CONTEXTS = [f'table-{i:03}' for i in range(300)]
MOVE_CONTEXTS = ROOT / 'deploy' / 'move_contexts.py'
DOWN_SECONDS = 3.0


def figure(text: str) -> None:
    print(f'  {text}', flush=True)


def move_contexts(*arguments: object) -> list[str]:
    done = subprocess.run([sys.executable, MOVE_CONTEXTS, *map(os.fspath, map(str, arguments))],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f'{arguments}: {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout.splitlines()


def owners(servers: list[str], *more: object) -> dict[str, str]:
    """Context id -> server, as deploy/move_contexts.py computes it."""
    lines = move_contexts('owner', '--servers', ','.join(servers), *more, '--', *CONTEXTS)
    return {context_id: server for server, context_id in map(str.split, lines)}


def code_of(call) -> str:  # a function that makes a call
    try:
        call()
    except grpc.RpcError as error:
        return error.code().name
    return 'OK'


# ---- Limits and headers, in front of fake servers -----------------------------------------------


class LimitsTest(EdgeTestCase):

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.fakes = [FakeServer(f'server-{i}') for i in range(4)]
        for fake in cls.fakes:
            cls.addClassCleanup(fake.close)
        cls.servers = [(fake.name, fake.port) for fake in cls.fakes]
        cls.edge = cls.start_edge('edge', cls.servers[:3])
        cls.channel = cls.edge.channel()
        cls.addClassCleanup(cls.channel.close)
        cls.stub = pb_grpc.ChoraleStub(cls.channel)

    def setUp(self) -> None:
        for fake in self.fakes:
            fake.failures = 0
            fake.take_metadata()

    def metadata(self) -> list[tuple[str, dict[str, str]]]:
        """(server, metadata) of the calls since the last time."""
        return [(fake.name, one) for fake in self.fakes for one in fake.take_metadata()]

    def get(self, context_id: str, *more: tuple[str, str], timeout: float = 10):
        return self.stub.GetContext(pb.GetContextRequest(name=f'contexts/{context_id}'),
                                    timeout=timeout, metadata=about(context_id, *more))

    def test_clients_cannot_steer_the_proxy(self):
        self.get('t', ('x-envoy-retry-grpc-on', 'unavailable'), ('x-envoy-upstream-alt-stat-name', 'x'),
                 ('x-envoy-max-retries', '9'), ('x-envoy-external-address', '10.0.0.1'),
                 ('x-forwarded-for', '10.0.0.1'), ('x-forwarded-host', 'other'),
                 ('x-forwarded-proto', 'http'), ('forwarded', 'for=10.0.0.1'),
                 ('x-real-ip', '10.0.0.1'), RETRY)
        [(_, seen)] = self.metadata()
        self.assertEqual({key: value for key, value in seen.items() if key.startswith('x-envoy-')},
                         {'x-envoy-external-address': '127.0.0.1'})
        self.assertEqual({key: seen.get(key) for key in (
            'x-forwarded-host', 'x-forwarded-proto', 'forwarded', 'x-real-ip', 'chorale-retry')},
                         {'x-forwarded-host': None, 'x-forwarded-proto': 'https',
                          'forwarded': None, 'x-real-ip': None, 'chorale-retry': None})
        # One address only. For a client on this machine, Envoy writes the machine's own.
        self.assertRegex(seen['x-forwarded-for'], r'^[0-9a-f.:]+$')
        self.assertNotEqual(seen['x-forwarded-for'], '10.0.0.1')

    def test_request_ids_and_traces_pass_through(self):
        trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
        request_id = '11111111-2222-4333-8444-555555555555'
        answer = self.stub.GetContext.with_call(
            pb.GetContextRequest(), metadata=about('t', ('traceparent', trace),
                                                   ('x-request-id', request_id)))[1]
        self.get('t')
        (_, first), (_, second) = self.metadata()
        self.assertEqual((first['traceparent'], first['x-request-id']), (trace, request_id))
        self.assertEqual(dict(answer.initial_metadata())['x-request-id'], request_id)
        self.assertRegex(second['x-request-id'], '^[0-9a-f]{8}-')
        wait_until('the access log has the call', lambda: any(
            line['request_id'] == request_id for line in self.edge.access_log()))
        line = next(line for line in self.edge.access_log() if line['request_id'] == request_id)
        self.assertEqual(
            (line['context'], line['traceparent'], line['grpc_status'], line['server'],
             line['attempts'], line['method']),
            ('t', trace, 'OK', owner_of(self.servers[:3], 't'), 1, '/chorale.v1.Chorale/GetContext'))

    def test_only_the_api_is_reachable(self):
        for method in ('/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
                       '/chorale.v2.Other/Call'):
            call = self.channel.unary_unary(method)
            self.assertEqual(code_of(lambda call=call: call(b'', metadata=about('t'))),
                             'UNIMPLEMENTED')
        self.assertEqual(self.metadata(), [])

    def test_a_call_about_a_context_needs_the_metadata(self):
        with self.assertRaises(grpc.RpcError) as refused:
            self.stub.GetContext(pb.GetContextRequest(name='contexts/t'))
        self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn('chorale-context', refused.exception.details())
        self.assertEqual(code_of(lambda: self.stub.RegisterContext(registration('t'))),
                         'INVALID_ARGUMENT')
        self.assertEqual(self.metadata(), [])

    def test_calls_about_no_context_are_spread(self):
        wait_until('all servers are well',
                   lambda: self.edge.stat('cluster.any_server.membership_healthy') == 3)
        for _ in range(60):
            self.stub.ListModels(pb.ListModelsRequest())
        counts = collections.Counter(server for server, _ in self.metadata())
        self.assertEqual(len(counts), 3)
        self.assertGreater(min(counts.values()), 5)

    def test_retries_go_to_the_same_server(self):
        for fake in self.fakes:
            fake.failures = 3
        self.assertEqual(self.get('t', RETRY).name, owner_of(self.servers[:3], 't'))
        self.assertEqual([server for server, _ in self.metadata()],
                         [owner_of(self.servers[:3], 't')] * 4)

    def test_there_are_no_retries_unless_the_caller_allows_them(self):
        for fake in self.fakes:
            fake.failures = 1
        self.assertEqual(code_of(lambda: self.get('t')), 'UNAVAILABLE')
        self.assertEqual(len(self.metadata()), 1)

    def test_a_deletion_is_never_repeated(self):
        for fake in self.fakes:
            fake.failures = 1
        self.assertEqual(code_of(lambda: self.stub.DeleteContext(
            pb.DeleteContextRequest(name='contexts/t'), metadata=about('t', RETRY))), 'UNAVAILABLE')
        self.assertEqual(len(self.metadata()), 1)

    def test_retries_end_with_the_deadline(self):
        for fake in self.fakes:
            fake.failures = 1000
        start = time.monotonic()
        self.assertEqual(code_of(lambda: self.get('t', RETRY, timeout=1)), 'DEADLINE_EXCEEDED')
        self.assertLess(time.monotonic() - start, 2)
        time.sleep(0.2)
        self.metadata()
        time.sleep(1.5)
        self.assertEqual(self.metadata(), [])

    def test_calls_about_no_context_go_elsewhere_if_a_server_fails(self):
        self.fakes[0].failures = self.fakes[1].failures = 1000
        for _ in range(10):
            self.assertEqual(self.stub.ListModels(pb.ListModelsRequest()).models[0].name, 'server-2')

    def test_an_upload_of_the_largest_message_can_be_repeated(self):
        owner = next(fake for fake in self.fakes if fake.name == owner_of(self.servers[:3], 't'))
        owner.failures = 1
        message = pb.RegisterContextRequest(rows=pb.Table(columns=[pb.Column(
            name='x', numeric=pb.NumericValues(values=[0.5] * 524_000))]))
        answer = self.stub.RegisterContext(iter([message]), metadata=about('t', RETRY), timeout=30)
        self.assertEqual(answer.context.dataset_bytes, message.ByteSize())
        self.assertEqual(len(self.metadata()), 2)

    def test_headers_are_bounded(self):
        for more in ([(f'x-{i}', 'v') for i in range(64)], [('x-large', 'v' * 20_000)],
                     [('under_score', 'v')]):
            self.assertNotEqual(code_of(lambda more=more: self.get('t', *more)), 'OK', more[0])
        self.assertEqual(self.metadata(), [])
        self.assertEqual(code_of(lambda: self.get('t', *[(f'x-{i}', 'v') for i in range(40)])), 'OK')

    def request(self, method: str, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        trusted = ssl.create_default_context(cafile=os.fspath(self.edge.folder / 'tls' / 'tls.crt'))
        connection = http.client.HTTPSConnection('localhost', self.edge.port, context=trusted,
                                                 timeout=10)
        self.addCleanup(connection.close)
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    def test_only_known_pages_may_call(self):
        def allowed(origin: str) -> str | None:
            return self.request('OPTIONS', '/chorale.v1.Chorale/Predict', {
                'Origin': origin, 'Access-Control-Request-Method': 'POST',
                'Access-Control-Request-Headers': 'content-type,x-grpc-web,chorale-context',
            }).getheader('access-control-allow-origin')
        self.assertEqual(allowed('http://localhost:8000'), 'http://localhost:8000')
        for origin in ('https://example.org', 'http://localhost.example.org', 'null'):
            self.assertIsNone(allowed(origin))
        self.assertEqual(self.request('OPTIONS', '/chorale.v1.Chorale/Predict', {}).status, 404)

    def test_paths_are_normalised(self):
        self.assertEqual(self.request('GET', '/x/../ready', {}).status, 200)
        self.assertEqual(self.request('GET', '/x%2f..%2fready', {}).status, 400)

    def test_calls_are_limited_and_told_when_to_come_again(self):
        edge = self.start_edge('few_calls', self.servers[:3], {
            'max_tokens: 1000, tokens_per_fill: 500, fill': 'max_tokens: 5, tokens_per_fill: 1, fill',
            'max_tokens: 10000, tokens_per_fill: 5000': 'max_tokens: 12, tokens_per_fill: 1'})

        def burst(stub: pb_grpc.ChoraleStub) -> list[str]:
            return [code_of(lambda: stub.GetContext(pb.GetContextRequest(), metadata=about('t')))
                    for _ in range(8)]
        with edge.channel() as one, edge.channel() as two, edge.channel() as three:
            first = burst(pb_grpc.ChoraleStub(one))
            self.assertEqual(set(first), {'OK', 'RESOURCE_EXHAUSTED'})
            self.assertIn(first.count('OK'), (5, 6))  # the connection's tokens
            second = burst(pb_grpc.ChoraleStub(two))  # another connection has tokens of its own
            self.assertIn(second.count('OK'), (5, 6))
            third = burst(pb_grpc.ChoraleStub(three))  # but those of all are used up
            self.assertLessEqual(third.count('OK'), 4)
            with self.assertRaises(grpc.RpcError) as refused:
                pb_grpc.ChoraleStub(three).GetContext(pb.GetContextRequest(), metadata=about('t'))
        self.assertEqual(refused.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        details = dict(refused.exception.trailing_metadata())['grpc-status-details-bin']
        status = status_pb2.Status.FromString(details)
        retry = error_details_pb2.RetryInfo()
        self.assertTrue(status.details[0].Unpack(retry))
        self.assertEqual((status.code, retry.retry_delay.seconds), (8, 1))

    def test_connections_are_limited(self):
        edge = self.start_edge('few_connections', self.servers[:3], {
            'max_active_downstream_connections: 4096': 'max_active_downstream_connections: 3'})

        def is_served() -> bool:
            one = socket.create_connection(('127.0.0.1', edge.port), timeout=5)
            self.addCleanup(one.close)
            unchecked = ssl.create_default_context()
            unchecked.check_hostname = False
            unchecked.verify_mode = ssl.CERT_NONE
            try:
                self.addCleanup(unchecked.wrap_socket(one).close)
            except OSError:
                return False
            return True
        self.assertEqual([is_served() for _ in range(5)], [True, True, True, False, False])

    def test_a_new_certificate_is_used_without_a_restart(self):
        edge = self.start_edge('renewed', self.servers[:3])

        def served() -> str:
            return ssl.get_server_certificate(('127.0.0.1', edge.port))
        for _ in range(5):
            before = served()
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                            'ec_paramgen_curve:P-256', '-noenc', '-subj', '/CN=new',
                            '-keyout', 'new.key', '-out', 'new.crt'],
                           check=True, capture_output=True, cwd=edge.folder)
            # As README.md has it.
            subprocess.run('cp new.key tls/tls.key && mv new.crt tls/tls.crt', shell=True,
                           check=True, cwd=edge.folder)
            wait_until('the new certificate is served', lambda: served() != before, 10)
        self.assertNotRegex(edge.admin('/stats'), r'(key_rotation_failed|sds.*rejected): [1-9]')

    def test_a_list_of_servers_with_a_mistake_is_refused(self):
        servers = self.edge.folder / 'servers.yaml'
        right = servers.read_text()
        for old, new, stat in (
                ('minimum_ring_size:', 'minimum_ring_sise:', 'update_rejected'),
                ('lb_policy: RING_HASH', 'lb_policy: RING_HUSH', 'update_rejected'),
                ('resources:', 'resources: [', 'update_failure')):
            before = self.edge.stat(f'cluster_manager.cds.{stat}')
            new_file = self.edge.folder / 'servers.new'
            new_file.write_text(right.replace(old, new, 1))
            new_file.rename(servers)
            wait_until(f'{new} is refused',
                       lambda: self.edge.stat(f'cluster_manager.cds.{stat}') > before)
            self.get('t')
        self.edge.write_servers(self.servers[:3])

    def test_metrics_that_are_watched_exist(self):
        names = set(re.findall(r'^(envoy_\w+)\{', self.edge.admin('/stats/prometheus'), re.MULTILINE))
        watched = (ROOT / 'tests/deploy/envoy_metrics.txt').read_text().split()
        self.assertEqual(set(watched) - names, set())

    def test_it_starts_in_the_background(self):
        folder = self.folder / 'background'
        Edge(folder, self.servers[:3]).close()  # with files on ports of their own
        run = subprocess.run([folder / 'run.sh', '--self-signed', '--drain', '1', '--background'],
                             env={**os.environ, 'ENVOY': ENVOY}, capture_output=True, text=True,
                             timeout=PATIENCE, check=True)
        [process] = re.findall(r'"kill (\d+)" stops it', run.stdout)
        self.addCleanup(os.kill, int(process), signal.SIGTERM)
        subprocess.run([folder / 'run.sh', '--check'], timeout=PATIENCE, check=True)
        again = subprocess.run([folder / 'run.sh', '--self-signed', '--background'],
                               env={**os.environ, 'ENVOY': ENVOY}, capture_output=True, text=True,
                               timeout=PATIENCE, check=False)
        self.assertEqual((again.returncode, again.stderr),
                         (1, 'Envoy is already running with this folder\n'))

    def test_it_does_not_start_in_the_background_without_a_certificate(self):
        folder = self.folder / 'uncertified'
        Edge(folder, self.servers[:3]).close()
        environment = {**os.environ, 'ENVOY': ENVOY}
        for missing in ('tls/tls.key', 'tls'):
            if missing == 'tls':
                shutil.rmtree(folder / missing)
            else:
                (folder / missing).unlink()
            run = subprocess.run([folder / 'run.sh', '--drain', '1', '--background'],
                                 env=environment, capture_output=True, text=True,
                                 timeout=PATIENCE, check=False)
            self.assertEqual(run.returncode, 1, missing)
            self.assertIn('Envoy has no certificate: tls/tls.crt and tls/tls.key', run.stderr)
            wait_until('it has ended', lambda: subprocess.run(
                [folder / 'run.sh', '--check'], capture_output=True, timeout=PATIENCE,
                check=False).returncode == 1)

    def test_it_drains(self):
        edge = self.start_edge('drained', self.servers[:3])
        with edge.channel() as channel:
            stream = pb_grpc.ChoraleStub(channel).Sample(
                pb.SampleRequest(path_count=30), metadata=about('t'), timeout=PATIENCE)
            next(stream)
            edge.process.terminate()
            self.assertEqual(sum(1 for _ in stream), 29)
        self.assertEqual(edge.process.wait(20), 0)
        with self.assertRaises(OSError):
            socket.create_connection(('127.0.0.1', edge.port), timeout=1).close()

    def test_how_many_contexts_move(self):
        """By the real Envoy: three servers, then four."""
        edge = self.start_edge('ring', self.servers[:3], {  # one caller asks for everything
            'max_tokens: 1000, tokens_per_fill: 500, fill':
                'max_tokens: 100000, tokens_per_fill: 500, fill'})
        channel = edge.channel()
        self.addCleanup(channel.close)
        stub = pb_grpc.ChoraleStub(channel)

        def ask() -> dict[str, str]:
            with concurrent.futures.ThreadPoolExecutor(4) as callers:
                answers = callers.map(lambda one: stub.GetContext(
                    pb.GetContextRequest(), timeout=10, metadata=about(one, RETRY)), CONTEXTS)
                return dict(zip(CONTEXTS, (answer.name for answer in answers)))

        def moved(before: dict[str, str], after: dict[str, str]) -> str:
            elsewhere = [one for one in CONTEXTS if before[one] != after[one]]
            to_new = sum(after[one] == 'server-3' for one in elsewhere)
            counts = sorted(collections.Counter(after.values()).values())
            return (f'{len(elsewhere)} of {len(CONTEXTS)} contexts move, {to_new} of them to the new '
                    f'server; then {"/".join(map(str, counts))} on the four')
        names = [fake.name for fake in self.fakes]
        three = ask()
        self.assertEqual(three, owners(names[:3]))
        results = {}
        edge.change_servers(self.servers)
        four = ask()
        self.assertEqual(four, owners(names))
        results['ring of 1024 places a server'] = moved(three, four)
        self.assertEqual({four[one] for one in CONTEXTS if four[one] != three[one]}, {'server-3'})
        edge.change_servers(self.servers, ring_size=3072)
        results['ring of 3072 places in all'] = moved(three, ask())
        edge.change_servers(self.servers[:3], policy='MAGLEV')
        maglev = ask()
        edge.change_servers(self.servers, policy='MAGLEV')
        results['Maglev'] = moved(maglev, ask())
        edge.change_servers(self.servers[:3])
        self.assertEqual(ask(), three)
        for name, result in results.items():
            figure(f'a fourth server, {name}: {result}')


# ---- One server -----------------------------------------------------------------------------


class OneServerTest(EdgeTestCase):

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.fake = FakeServer('server-0')
        cls.addClassCleanup(cls.fake.close)
        cls.edge = cls.start_edge('one', cls.fake.port)

    def test_all_calls_go_to_it(self):
        with self.edge.channel() as channel:
            stub = pb_grpc.ChoraleStub(channel)
            for one in CONTEXTS[:10]:
                self.assertEqual(stub.GetContext(pb.GetContextRequest(), timeout=10,
                                                 metadata=about(one)).name, 'server-0')
            self.assertEqual(stub.ListModels(pb.ListModelsRequest(), timeout=10).models[0].name,
                             'server-0')

    def test_its_calls_are_limited(self):
        edge = self.start_edge('few', self.fake.port, {'max_requests: 2000': 'max_requests: 2'})
        with contextlib.ExitStack() as stack:
            codes = []
            for _ in range(4):
                stub = pb_grpc.ChoraleStub(stack.enter_context(edge.channel()))
                stream = stub.Sample(pb.SampleRequest(path_count=1000), timeout=PATIENCE,
                                     metadata=about('t'))
                stack.callback(stream.cancel)
                codes.append(code_of(lambda stream=stream: next(stream)))
        self.assertEqual(codes, ['OK', 'OK', 'UNAVAILABLE', 'UNAVAILABLE'])

    def test_a_connection_that_cancels_its_calls_is_ended(self):
        trusted = ssl.create_default_context(cafile=os.fspath(self.edge.folder / 'tls' / 'tls.crt'))
        trusted.set_alpn_protocols(['h2'])
        headers = http2.request_headers('/chorale.v1.Chorale/GetContext', *about('t'))
        ended = self.edge.stat('http.edge.downstream_rq_too_many_premature_resets')
        with socket.create_connection(('localhost', self.edge.port), timeout=10) as plain, \
                trusted.wrap_socket(plain, server_hostname='localhost') as connection:
            connection.sendall(http2.PREFACE + http2.settings() +
                               http2.frame(http2.SETTINGS, http2.ACK, 0))
            try:
                for stream in range(1, 100_001, 2):
                    connection.sendall(
                        http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers) +
                        http2.reset(stream))
                self.fail('50,000 calls were taken')
            except OSError:
                pass
        wait_until('it is counted', lambda: self.edge.stat(
            'http.edge.downstream_rq_too_many_premature_resets') == ended + 1)
        self.assertLess(len(self.fake.take_metadata()), 1000)


class HostileHeadersTest(EdgeTestCase):
    """gRPC 1.51 ends a connection whose headers are too large or hold binary metadata that does not
    decode. All clients of a server share Envoy's connections to it."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.server = Server(cls.folder, 'server', free_ports(1)[0])
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.edge = cls.start_edge('edge', cls.server.port)

    def list_models(self, *metadata: tuple[str, str]) -> str:
        """The code of a call on a connection of its own."""
        with self.edge.channel() as channel:
            return code_of(lambda: pb_grpc.ChoraleStub(channel).ListModels(
                pb.ListModelsRequest(), timeout=10, metadata=metadata))

    def send(self, *headers: tuple[str, str]) -> None:
        """A call with headers that a client of gRPC would not send. Waits for the answer."""
        trusted = ssl.create_default_context(cafile=os.fspath(self.edge.folder / 'tls' / 'tls.crt'))
        trusted.set_alpn_protocols(['h2'])
        block = http2.request_headers('/chorale.v1.Chorale/ListModels', *headers)
        with socket.create_connection(('localhost', self.edge.port), timeout=10) as plain, \
                trusted.wrap_socket(plain, server_hostname='localhost') as connection:
            connection.sendall(
                http2.PREFACE + http2.settings() + http2.frame(http2.SETTINGS, http2.ACK, 0) +
                http2.frame(http2.HEADERS, http2.END_HEADERS, 1, block) +
                http2.frame(http2.DATA, http2.END_STREAM, 1, http2.message(b'')))
            with connection.makefile('rb') as frames:
                while len(head := frames.read(9)) == 9:
                    frames.read(int.from_bytes(head[:3], 'big'))
                    last = (head[3] == http2.HEADERS and head[4] & http2.END_STREAM or
                            head[3] in (http2.RST_STREAM, http2.GOAWAY))
                    if last:
                        return
        self.fail('no answer')

    def ended_connections(self) -> int:
        return sum(self.edge.stat(f'cluster.{name}.upstream_cx_destroy')
                   for name in ('contexts', 'any_server'))

    def test_they_end_no_connection_to_the_server(self):
        self.assertEqual(self.list_models(), 'OK')
        before = self.ended_connections()
        self.send(('x-trace-bin', '!!!'))
        self.assertEqual(self.ended_connections(), before)
        # What Envoy lets through, however it is cut, fits into the server's limit.
        for count in (1, 50):
            codes = [self.list_models(*((f'x-{i}', 'v' * (size // count)) for i in range(count)))
                     for size in range(8_000, 17_000, 500)]
            self.assertEqual(codes[0], 'OK')
            self.assertNotEqual(codes[-1], 'OK')
            self.assertEqual(self.ended_connections(), before, f'{count} headers')
        self.assertEqual(self.list_models(), 'OK')


def owner_of(servers, context_id: str) -> str:
    names = ','.join(name for name, _ in servers)
    return move_contexts('owner', '--servers', names, context_id)[0].split()[0]


# ---- Three servers, 300 contexts ------------------------------------------------------------


class Answers(http.server.BaseHTTPRequestHandler):
    """Serves the page, and takes what it reports."""

    def do_GET(self) -> None:  # pylint: disable=invalid-name
        self.send_response(200)
        self.send_header('content-type', 'text/html')
        self.end_headers()
        self.wfile.write(self.server.page.encode())

    def do_POST(self) -> None:  # pylint: disable=invalid-name
        self.server.answers = json.loads(self.rfile.read(int(self.headers['content-length'])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments) -> None:
        pass


class ReplicasTest(EdgeTestCase):
    """One story, told by the tests in the order of their numbers."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.servers = [Server(cls.folder, f'server-{i}', port)
                       for i, port in enumerate(free_ports(4))]
        for server in cls.servers:
            cls.addClassCleanup(server.close)
        for server in cls.servers[:3]:
            server.start()
        cls.edge = cls.start_edge('edge', cls.endpoints(3))
        cls.channel = cls.edge.channel()
        cls.addClassCleanup(cls.channel.close)
        cls.stub = pb_grpc.ChoraleStub(cls.channel)
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            list(callers.map(lambda one: cls.stub.RegisterContext(
                registration(one), metadata=about(one), timeout=PATIENCE), CONTEXTS))
        figure(f'{len(CONTEXTS)} contexts registered in {time.monotonic() - start:.1f} s')
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            cls.expected = dict(zip(CONTEXTS, callers.map(
                lambda one: predict(cls.stub, one), CONTEXTS)))
        figure(f'first prediction of each in {time.monotonic() - start:.1f} s')

    @classmethod
    def endpoints(cls, count: int) -> list[tuple[str, int]]:
        return [(server.name, server.port) for server in cls.servers[:count]]

    def held(self, count: int) -> dict[str, dict[str, pb.Context]]:
        """Server -> what it holds, asked directly."""
        return {server.name: server.contexts() for server in self.servers[:count]}

    def load(self, count: int = 3) -> Load:
        groups = {name: list(contexts) for name, contexts in self.held(count).items()}
        return Load(self.edge, groups, self.expected)

    def summarize(self, what: str, outcomes: list[Outcome]) -> None:
        for retries in (False, True):
            mine = [one for one in outcomes if one.retries == retries]
            codes = collections.Counter(
                one.code if one.code == 'OK' else f'{one.code} ({one.method})' for one in mine)
            longest = max(one.end - one.start for one in mine)
            figure(f'{what}, callers that {"allow" if retries else "do not allow"} retries: '
                   f'{dict(codes)}, longest call {longest:.2f} s')

    def test_1_each_context_is_on_the_server_that_the_ring_says(self):
        held = self.held(3)
        self.assertEqual(sorted(one for contexts in held.values() for one in contexts), CONTEXTS)
        expected = owners([server.name for server in self.servers[:3]])
        self.assertEqual({one: name for name, contexts in held.items() for one in contexts}, expected)
        figure('contexts on each server: ' + ', '.join(str(len(one)) for one in held.values()))
        again = self.stub.RegisterContext(registration(CONTEXTS[0]), metadata=about(CONTEXTS[0]))
        self.assertTrue(again.already_registered)

    def test_2_our_client_calls_through_it(self):
        def client(*arguments: object) -> str:
            done = subprocess.run(
                [CLIENT, *map(str, arguments), '--server', f'localhost:{self.edge.port}', '--tls-ca',
                 self.edge.folder / 'tls' / 'tls.crt'], capture_output=True, text=True, check=False,
                timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        heldout = ROOT / 'datasets' / 'penguins_heldout.csv'
        for name in ('penguins-a', 'penguins-b', 'penguins-c', 'penguins-d'):
            client('register', ROOT / 'datasets' / 'penguins.csv', '--target', 'body_mass_g',
                   '--name', name)
            client('warm', name)
            self.assertEqual(client('predict', name, heldout).count('\n'), 25)
            client('sample', name, heldout, '--paths', 8, '--seed', 1)
            client('log-density', name, heldout)
            client('show', name)
            client('rm', name)
        client('ls')
        client('models')

    def test_3_a_browser_calls_by_grpc_web(self):
        browser = shutil.which('chromium') or shutil.which('chromium-browser')
        if browser is None:
            self.skipTest('chromium is not installed')
        one = CONTEXTS[7]
        calls = [('predict', 'Predict', one, predict_request(one)),
                 ('sample', 'Sample', one, sample_request(one, 64)),
                 ('models', 'ListModels', None, pb.ListModelsRequest()),
                 ('no metadata', 'GetContext', None, pb.GetContextRequest(name=f'contexts/{one}')),
                 ('not found', 'GetContext', 'none', pb.GetContextRequest(name='contexts/none'))]
        page = (pathlib.Path(__file__).with_name('edge_page.html').read_text()
                .replace('EDGE', f'https://localhost:{self.edge.port}')
                .replace('CALLS', json.dumps([
                    {'name': name, 'method': method, 'context': context,
                     'message': base64.b64encode(message.SerializeToString()).decode()}
                    for name, method, context, message in calls])))
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answers)
        server.page, server.answers = page, None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with open(self.folder / 'chromium.log', 'wb') as log:
            process = subprocess.Popen(
                [browser, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                 '--no-first-run', '--disable-background-networking', '--ignore-certificate-errors',
                 f'--user-data-dir={self.folder}/chromium', '--remote-debugging-port=0',
                 f'http://localhost:{server.server_port}/'], stdout=log, stderr=log)
        try:
            wait_until('the page has reported', lambda: server.answers is not None, 40)
        finally:
            stop(process)
        answers = {answer['name']: answer for answer in server.answers}
        self.assertEqual([answer.get('error') for answer in server.answers], [None] * 5)

        def messages(name: str, kind):
            return [kind.FromString(base64.b64decode(text)) for text in answers[name]['messages']]
        [predicted] = messages('predict', pb.PredictResponse)
        self.assertEqual((*predicted.means, *predicted.stds, *predicted.quantiles), self.expected[one])
        self.assertIn('grpc-status:0', answers['predict']['trailers'])

        def drawn(responses) -> list[tuple[int, int, tuple[float, ...]]]:
            return sorted((block.first_path, block.first_step, tuple(block.values))
                          for response in responses for block in response.blocks.blocks)

        def values(blocks) -> list[float]:
            return sorted(value for *_, more in blocks for value in more)
        there = drawn(messages('sample', pb.SampleResponse))
        here = drawn(self.stub.Sample(sample_request(one, 64), metadata=about(one)))
        self.assertEqual(values(there), values(here))
        self.assertEqual(len(values(there)), 64 * 3)
        self.assertEqual(messages('models', pb.ListModelsResponse),
                         [self.stub.ListModels(pb.ListModelsRequest())])
        for name, status in (('no metadata', 3), ('not found', 5)):
            answer = answers[name]
            self.assertIn(str(status), (answer['status'], answer['trailers'].partition(
                'grpc-status:')[2].partition('\r')[0]), answer)
        figure(f'{browser}: Predict, Sample and ListModels by gRPC-Web equal those by gRPC')

    def test_4_a_killed_server_comes_back(self):
        created = {name: {one: context.create_time.ToNanoseconds()
                          for one, context in contexts.items()}
                   for name, contexts in self.held(3).items()}
        victim = self.servers[1]
        own = next(one for one in CONTEXTS if one in created[victim.name])
        load = self.load()
        time.sleep(2)
        long_stream = self.stub.Sample(sample_request(own, 16_000), metadata=about(own),
                                       timeout=PATIENCE)
        next(long_stream)
        killed = time.monotonic()
        victim.kill()
        broken = code_of(lambda: sum(1 for _ in long_stream))
        time.sleep(max(0.0, killed + DOWN_SECONDS - time.monotonic()))
        restarted = time.monotonic()
        until_ready = victim.start()
        time.sleep(4)
        outcomes = load.stop()
        self.summarize('killed and started again', outcomes)
        others = [one for one in outcomes if one.group != victim.name]
        mine = [one for one in outcomes if one.group == victim.name]
        self.assertEqual({one.code for one in others}, {'OK'})
        self.assertGreater(len(others), 200)
        # Nobody can repeat a stream that has begun: those of the moment of the kill are broken.
        begun = [one for one in mine if one.method == 'Sample' and one.code == 'INTERNAL' and
                 one.start < killed < one.end < killed + 1]
        mine = [one for one in mine if one not in begun]
        figure(f'streams that had begun when their server was killed: {1 + len(begun)}; they ended '
               f'with {broken}')
        self.assertEqual(broken, 'INTERNAL')
        self.assertLessEqual(len(begun), 2)  # a caller of each kind
        self.assertEqual({one.code for one in mine if one.retries}, {'OK'})
        plain = [one for one in mine if not one.retries]
        self.assertLessEqual({one.code for one in plain}, {'OK', 'UNAVAILABLE'})
        self.assertIn('UNAVAILABLE', {one.code for one in plain})
        first = min(one.end for one in plain if one.code == 'OK' and one.start > restarted)
        last_failure = max(one.end for one in plain if one.code != 'OK')
        figure(f'down for {DOWN_SECONDS} s; started again, it was ready after {until_ready:.2f} s, '
               f'and answered through the edge after {first - restarted:.2f} s; last failure '
               f'{max(0.0, last_failure - restarted):.2f} s after the start')
        slowest = max(one.end - one.start for one in others)
        figure(f'calls to the other servers: {len(others)}, none failed, longest {slowest:.2f} s')
        self.assertLess(last_failure - restarted, until_ready + 2)
        # Its contexts are those of before, not registered again.
        self.assertEqual(created, {name: {one: context.create_time.ToNanoseconds()
                                          for one, context in contexts.items()}
                                   for name, contexts in self.held(3).items()})
        for one in created[victim.name]:
            self.assertEqual(predict(self.stub, one), self.expected[one])

    def test_5_a_fourth_server_is_added(self):
        before = self.held(3)
        names = [server.name for server in self.servers]
        three, four = owners(names[:3]), owners(names)
        moving = sorted(one for one in CONTEXTS if three[one] != four[one])
        new = self.servers[3]
        load = self.load()
        time.sleep(1)
        stays = next(one for one in CONTEXTS if three[one] == four[one])
        long_stream = self.stub.Sample(sample_request(stays, 16_000), metadata=about(stays),
                                       timeout=PATIENCE)
        next(long_stream)
        start = time.monotonic()
        # As README.md says, "Add a server".
        printed = move_contexts('copy', '--servers', ','.join(names), '--server', new.name, '--into',
                                new.data, *[server.data for server in self.servers[:3]])
        copied = time.monotonic()
        new.start()
        self.edge.change_servers(self.endpoints(4))
        switched = time.monotonic()
        time.sleep(2)
        self.assertEqual(code_of(lambda: sum(1 for _ in long_stream)), 'OK')
        self.assertEqual(sorted(new.contexts()), moving)
        for server in self.servers[:3]:
            others = [other.data for other in self.servers if other is not server]
            strangers = move_contexts('strangers', '--servers', ','.join(names), '--server',
                                      server.name, server.data, *others)
            with grpc.insecure_channel(f'127.0.0.1:{server.port}') as direct:
                for one in strangers:
                    pb_grpc.ChoraleStub(direct).DeleteContext(
                        pb.DeleteContextRequest(name=f'contexts/{one}'))
        time.sleep(1)
        outcomes = load.stop()
        self.summarize('a fourth server added', outcomes)
        figure('\n  '.join(printed))
        figure(f'{len(moving)} of {len(CONTEXTS)} contexts moved; copied in {copied - start:.2f} s, '
               f'served from the new place {switched - start:.2f} s after the beginning')
        self.assertEqual({one.code for one in outcomes}, {'OK'})
        after = self.held(4)
        self.assertEqual({one: name for name, contexts in after.items() for one in contexts}, four)
        self.assertEqual(sum(map(len, after.values())), len(CONTEXTS))
        for one in moving:
            self.assertEqual(after[new.name][one].digest, before[three[one]][one].digest)
            self.assertEqual(after[new.name][one].create_time, before[three[one]][one].create_time)
            self.assertEqual(predict(self.stub, one), self.expected[one])

    def test_6_the_tool_refuses_a_folder_in_use_and_keeps_what_is_nowhere_else(self):
        names = ','.join(server.name for server in self.servers)
        with self.assertRaisesRegex(AssertionError, 'stop it first'):
            move_contexts('copy', '--servers', names, '--server', 'server-0', '--into',
                          self.servers[0].data, self.servers[1].data)
        lost = next(one for one, name in owners(names.split(',')).items() if name == 'server-0')
        with grpc.insecure_channel(f'127.0.0.1:{self.servers[1].port}') as direct:
            stub = pb_grpc.ChoraleStub(direct)
            stub.RegisterContext(registration(lost))  # which server-0 has, too
            stray = next(f'stray-{i}' for i in range(100) if owner_of(
                [(server.name, 0) for server in self.servers], f'stray-{i}') == 'server-0')
            stub.RegisterContext(registration(stray))
            with self.assertRaisesRegex(AssertionError, f'keep: {stray} belongs to server-0'):
                move_contexts('strangers', '--servers', names, '--server', 'server-1',
                              self.servers[1].data, self.servers[0].data)
            # A server that is stopped for a moment takes what it lacks.
            self.servers[0].terminate()
            printed = move_contexts('copy', '--servers', names, '--server', 'server-0', '--into',
                                    self.servers[0].data, self.servers[1].data)
            self.servers[0].start()
            self.assertIn('1 copied, 1 already there', printed[0])
            self.assertEqual(predict(self.stub, stray), predict(stub, stray))
            for one in (stray, lost):
                stub.DeleteContext(pb.DeleteContextRequest(name=f'contexts/{one}'))
        self.stub.DeleteContext(pb.DeleteContextRequest(name=f'contexts/{stray}'),
                                metadata=about(stray))

    def test_7_all_are_restarted_in_turn(self):
        load = self.load(4)
        time.sleep(1)
        for server in self.servers:
            start = time.monotonic()
            self.assertEqual(server.terminate(), 0)
            ended = time.monotonic()
            server.start()
            figure(f'{server.name} ended in {ended - start:.2f} s and was ready again '
                   f'{time.monotonic() - ended:.2f} s later')
            time.sleep(1)
        outcomes = load.stop()
        self.summarize('all restarted in turn', outcomes)
        self.assertEqual({one.code for one in outcomes if one.retries}, {'OK'})
        self.assertLessEqual({one.code for one in outcomes}, {'OK', 'UNAVAILABLE', 'CANCELLED'})
        for one in CONTEXTS[::10]:
            self.assertEqual(predict(self.stub, one), self.expected[one])


if __name__ == '__main__':
    unittest.main(verbosity=0)
