#!/usr/bin/env python3
"""Tests what Envoy, with the files of deploy/envoy, does itself with requests for JSON: in front of
fake servers.

Usage: json_proxy_test.py [TEST...]       needs the packages in requirements.txt and openssl.
"""

import contextlib
import http.client
import json
import time
import unittest

import grpc
from google.protobuf import json_format

from edge_processes import RETRY, FakeServer, free_ports, pb, wait_until
from json_calls import JSON_HEADERS, TestCase


class Failing(FakeServer):
    # pylint: disable=invalid-name

    def CreateContext(self, request, context):
        self.begin(context)
        return pb.RegisterContextResponse(context=pb.Context(name=self.name))

    def Sample(self, request, context):
        """The paths of FakeServer; then, with a seed, an error."""
        yield from super().Sample(request, context)
        if request.HasField('seed'):
            context.abort(grpc.StatusCode.UNAVAILABLE, 'draining')


class EnvoyTest(TestCase):

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.fakes = [Failing(f'server-{i}') for i in range(3)]
        for fake in cls.fakes:
            cls.addClassCleanup(fake.close)
        cls.servers = [(fake.name, fake.port) for fake in cls.fakes]
        cls.edge = cls.start_edge('edge', cls.servers,
                                  {'{max_stream_duration: 30s}': '{max_stream_duration: 1s}'})

    def setUp(self) -> None:
        for fake in self.fakes:
            fake.failures = 0
            fake.take_metadata()

    def metadata(self) -> list[dict[str, str]]:
        return [one for fake in self.fakes for one in fake.take_metadata()]

    def test_what_the_server_receives(self):
        self.request('GET', '/v1/contexts/t', headers={
            'Authorization': 'Bearer token', 'x-request-id': 'mine', 'traceparent': 'trace',
            'x-forwarded-for': '10.0.0.1', 'x-envoy-original-path': '/v1/contexts/other',
            'grpc-timeout': '9S', 'some-bin': 'AA'})
        [seen] = self.metadata()
        self.assertEqual({key: seen.get(key) for key in (
            'authorization', 'x-request-id', 'traceparent', 'x-envoy-original-path', 'some-bin')},
                         {'authorization': 'Bearer token', 'x-request-id': 'mine',
                          'traceparent': 'trace', 'x-envoy-original-path': '/v1/contexts/t',
                          'some-bin': None})
        self.assertNotEqual(seen['x-forwarded-for'], '10.0.0.1')

    def test_a_table_goes_to_the_server_of_its_id(self):
        """Also if the spec comes last, after more than Envoy keeps of a stream elsewhere."""
        rows = {'columns': [{'name': 'x', 'numeric': {'values': [0.1234567890123456] * 100000}}]}
        places = set()
        for i in range(20):
            path = f'/v1/contexts/t{i}'
            place = json.loads(self.call('GET', path))['name']
            places.add(place)
            for body in ({'spec': {'contextId': f't{i}'}},
                         {'spec': {'context_id': f't{i}', 'labels': {'context_id': 'other'}}},
                         {'rows': rows, 'spec': {'contextId': f't{i}'}}):
                answer = json.loads(self.call('POST', '/v1/contexts', body))
                self.assertEqual(answer['context']['name'], place, i)
        self.assertEqual(len(places), 3)

    def test_a_table_without_an_id_goes_to_no_server(self):
        forged = {'x-envoy-chorale-context': '["t"]'}
        for body in ({}, {'spec': {}}, {'spec': {'contextId': ''}},
                     {'spec': {'contextId': 'a\r\nb: c'}}, {'spec': {'contextId': 'a"],["b'}}):
            with self.subTest(body):
                status, error = self.error('POST', '/v1/contexts', body, headers=forged)
                self.assertEqual((status, error.code), (400, 3), error)
                self.assertIn('spec.contextId', error.message)
        self.assertEqual(self.metadata(), [])

    def test_a_table_is_sent_again(self):
        for fake in self.fakes:
            fake.failures = 3
        body = {'spec': {'contextId': 't'}}
        self.assertEqual(self.request('POST', '/v1/contexts', body, headers=dict([RETRY]))[0], 200)
        self.assertEqual(len(self.metadata()), 4)
        for fake in self.fakes:
            fake.failures = 1
        status, error = self.error('POST', '/v1/contexts', body)
        self.assertEqual((status, error.code, error.message), (503, 14, 'draining'))
        self.assertEqual(len(self.metadata()), 1)

    def test_retries(self):
        for fake in self.fakes:
            fake.failures = 3
        self.assertEqual(self.request('GET', '/v1/contexts/t', headers=dict([RETRY]))[0], 200)
        self.assertEqual(len(self.metadata()), 4)
        for fake in self.fakes:
            fake.failures = 1
        for method, headers in (('DELETE', dict([RETRY])), ('GET', {})):
            status, error = self.error(method, '/v1/contexts/t', headers=headers)
            self.assertEqual((status, error.code, error.message), (503, 14, 'draining'))
            self.assertEqual(len(self.metadata()), 1)
            for fake in self.fakes:
                fake.failures = 1

    def test_a_server_that_is_down(self):
        [port] = free_ports(1)
        edge = self.start_edge('down', [('server-0', port)])
        status, error = self.error('GET', '/v1/contexts/t', edge=edge)
        self.assertEqual((status, error.code), (503, 14), error)
        status, error = self.error('GET', '/v1/models', edge=edge)
        self.assertEqual((status, error.code), (503, 14), error)

    def test_too_many_calls(self):
        edge = self.start_edge('few_calls', self.servers, {
            'max_tokens: 10000, tokens_per_fill: 5000': 'max_tokens: 1, tokens_per_fill: 1'})
        self.request('GET', '/v1/contexts/t', edge=edge)
        status, error = self.error('GET', '/v1/contexts/t', edge=edge)
        self.assertEqual((status, error.code), (429, 8))
        self.assertEqual(json_format.MessageToDict(error)['details'], [
            {'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '1s'}])

    def sample(self, **fields: object) -> http.client.HTTPResponse:
        connection = self.connect()
        connection.request('POST', '/v1/contexts/t:sample', headers=JSON_HEADERS,
                           body=json.dumps(fields))
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        return response

    def test_samples_come_as_they_are_drawn(self):
        """Also for longer than a request may take to come, which is 1 s here."""
        start = time.monotonic()
        response = self.sample(pathCount=20)
        first = json.loads(response.readline())
        until_first = time.monotonic() - start
        rest = [json.loads(line) for line in response]
        total = time.monotonic() - start
        self.assertEqual([int(one['blocks']['blocks'][0]['firstPath']) for one in [first, *rest]],
                         list(range(20)))
        self.assertGreater(total, 1.9)
        self.assertLess(until_first, total / 2)

    def test_a_stream_that_fails_has_no_summary(self):
        lines = [json.loads(line) for line in self.sample(pathCount=2, seed='1')]
        self.assertEqual(len(lines), 2)
        self.assertFalse(any('summary' in line for line in lines))

    def test_a_body_that_does_not_come_is_not_waited_for(self):
        connection = self.connect()
        connection.putrequest('POST', '/v1/contexts/t:predict')
        connection.putheader('content-type', 'application/json')
        connection.putheader('content-length', '1000')
        connection.endheaders(b'{"rows": ')
        start = time.monotonic()
        with contextlib.suppress(http.client.RemoteDisconnected, ConnectionError):
            self.assertGreaterEqual(connection.getresponse().status, 400)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(self.metadata(), [])

    def test_pages_that_may_call(self):
        def allowed(method: str, origin: str) -> tuple[str | None, str | None]:
            connection = self.connect()
            connection.request(method, '/v1/contexts/t', headers={
                'Origin': origin, 'Access-Control-Request-Method': 'DELETE'})
            response = connection.getresponse()
            return (response.getheader('access-control-allow-origin'),
                    response.getheader('access-control-allow-methods'))
        page = 'http://localhost:8000'
        self.assertEqual(allowed('OPTIONS', page), (page, 'GET, POST, DELETE, OPTIONS'))
        self.assertEqual(allowed('GET', page)[0], page)
        for method in ('OPTIONS', 'GET'):
            self.assertIsNone(allowed(method, 'https://example.org')[0])

    def test_the_access_log_has_the_path(self):
        self.request('GET', '/v1/contexts/logged?name=x', headers={'x-request-id': 'logged'})
        self.request('GET', '/v1/contexts/logged', headers={'x-request-id': 'logged too'})
        wait_until('the access log has the call', lambda: any(
            line['request_id'] == 'logged too' for line in self.edge.access_log()))
        line = next(line for line in self.edge.access_log() if line['request_id'] == 'logged too')
        self.assertEqual((line['method'], line['json_path'], line['http_status']),
                         ('/chorale.v1.Chorale/GetContext', '/v1/contexts/logged', 200))


if __name__ == '__main__':
    unittest.main()
