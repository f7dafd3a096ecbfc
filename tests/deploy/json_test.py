#!/usr/bin/env python3
"""Tests JSON through a real Envoy with the files of deploy/envoy in front of chorale servers: the same
results as by gRPC, to the bit, and the same errors. Runs the examples of docs/json.md.

Usage: json_test.py [TEST...]       needs the packages in requirements.txt, openssl, and a build of the
server and the client; the examples need curl, node and R with httr2.
"""

import json
import math
import os
import re
import shutil
import subprocess
import unittest
from typing import Any

import grpc
from google.protobuf import json_format

from edge_processes import (CLIENT, PATIENCE, ROOT, TARGETS, Server, about, free_ports, pb, pb_grpc,
                            predict_request, registration, sample_request, status_pb2, table)
from json_calls import TestCase

MIB = 1 << 20
CONTEXTS = [f'table-{i}' for i in range(36)]  # so that each server has some


def to_json(message) -> Any:
    """As clients write it, without the context, which is in the path."""
    fields = json_format.MessageToDict(message)
    fields.pop('context', None)
    return fields


class ServersTest(TestCase):

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.servers = [Server(cls.folder, f'server-{i}', port)
                       for i, port in enumerate(free_ports(3))]
        for server in cls.servers:
            cls.addClassCleanup(server.close)
        for server in cls.servers:
            server.start()
        cls.edge = cls.start_edge('edge', [(server.name, server.port) for server in cls.servers])
        cls.channel = cls.edge.channel()
        cls.addClassCleanup(cls.channel.close)
        cls.stub = pb_grpc.ChoraleStub(cls.channel)
        for one in CONTEXTS:
            cls.stub.RegisterContext(registration(one), metadata=about(one), timeout=PATIENCE)
        cls.one = CONTEXTS[0]

    def path(self, verb: str, one: str | None = None) -> str:
        return f'/v1/contexts/{one or self.one}:{verb}'

    def same(self, content: bytes, expected) -> None:
        """JSON is a message that is equal to one by gRPC, but for the times that the calls took."""
        found = json_format.Parse(content, type(expected)())
        for message in (found, expected):
            if 'timings' in message.DESCRIPTOR.fields_by_name:
                message.ClearField('timings')
        self.assertEqual(found, expected)

    def test_contexts_on_every_server(self):
        held = [server.contexts() for server in self.servers]
        self.assertGreater(min(map(len, held)), 0)
        for one in CONTEXTS:
            self.same(self.call('GET', f'/v1/contexts/{one}'), self.stub.GetContext(
                pb.GetContextRequest(name=f'contexts/{one}'), metadata=about(one)))
        page = json.loads(self.call('GET', '/v1/contexts?pageSize=1'))
        self.assertEqual(len(page['contexts']), 1)
        [server] = [one for one in held if page['contexts'][0]['name'][9:] in one]
        self.assertEqual(page['nextPageToken'] == '', len(server) == 1)

    def test_lists_of_contexts(self):
        listing = '/v1/contexts?filter=row_count%3E1%20AND%20name%3Dcontexts/*&orderBy=name%20desc'
        full = json.loads(self.call('GET', listing + '&view=CONTEXT_VIEW_FULL'))['contexts']
        self.assertEqual(len(full[0]['features']), int(full[0]['featureCount']))
        self.assertEqual(full, sorted(full, key=lambda context: context['name'], reverse=True))

    def test_models(self):
        listed = self.stub.ListModels(pb.ListModelsRequest())
        self.same(self.call('GET', '/v1/models'), listed)
        self.same(self.call('GET', f'/v1/{listed.models[0].name}'), listed.models[0])

    def test_server_info(self):
        self.same(self.call('GET', '/v1/serverInfo'),
                  self.stub.GetServerInfo(pb.GetServerInfoRequest()))

    def test_health(self):
        for query in ('', '?service=readiness', '?service=chorale.v1.Chorale'):
            self.assertEqual(json.loads(self.call('GET', f'/v1/health{query}')),
                             {'status': 'SERVING'})
        status, error = self.error('GET', '/v1/health?service=none')
        self.assertEqual((status, error.code), (404, 5))

    def test_delete(self):
        self.stub.RegisterContext(registration('short'), metadata=about('short'))
        self.assertEqual(json.loads(self.call('DELETE', '/v1/contexts/short')), {})
        status, error = self.error('DELETE', '/v1/contexts/short')
        self.assertEqual((status, error.code), (404, 5))

    def test_create(self):
        """The id is in the body. Each context must be found again by the id in its path, by JSON and
        by gRPC."""
        created = [f'created-{i}' for i in range(36)]  # so that each server has some
        for one in created:
            body = {'spec': {'contextId': one, 'targetColumn': 'y', 'description': 'of "JSON"'},
                    'rows': json_format.MessageToDict(table(one))}
            answer = json.loads(self.call('POST', '/v1/contexts', body))
            self.assertEqual(answer['context']['name'], f'contexts/{one}')
            self.assertEqual(answer['context']['description'], 'of "JSON"')
            self.assertFalse(answer['alreadyRegistered'])
            self.assertTrue(json.loads(self.call('POST', '/v1/contexts', body))['alreadyRegistered'])
            content = self.call('GET', f'/v1/contexts/{one}')
            self.same(content, self.stub.GetContext(pb.GetContextRequest(name=f'contexts/{one}'),
                                                    metadata=about(one)))
            # The same content as by gRPC.
            uploaded = self.stub.RegisterContext(registration(one), metadata=about(one))
            self.assertTrue(uploaded.already_registered)
        self.assertGreater(min(len(server.contexts().keys() & set(created)) for server in self.servers), 0)

    def test_create_by_names_of_the_proto(self):
        body = {'rows': json_format.MessageToDict(table('proto')),
                'spec': {'context_id': 'proto', 'target_column': 'y', 'validate_only': True}}
        answer = json.loads(self.call('POST', '/v1/contexts', body))
        self.assertGreater(int(answer['estimate']['deviceBytes']), 0)
        self.assertEqual(self.error('GET', '/v1/contexts/proto')[0], 404)

    def test_replace_and_delete_by_etag(self):
        spec = {'contextId': 'replaced', 'targetColumn': 'y'}
        first = json.loads(self.call('POST', '/v1/contexts', {
            'spec': spec, 'rows': json_format.MessageToDict(table('first'))}))
        other = {'spec': spec, 'rows': json_format.MessageToDict(table('other'))}
        status, error = self.error('POST', '/v1/contexts', other)
        self.assertEqual((status, error.code), (409, 6))
        spec['replace'] = True
        spec['etag'] = 'old'
        status, error = self.error('POST', '/v1/contexts', other)
        self.assertEqual((status, error.code), (409, 10))
        spec['etag'] = first['context']['etag']
        second = json.loads(self.call('POST', '/v1/contexts', other))
        self.assertTrue(second['replaced'])
        path = '/v1/contexts/replaced'
        status, error = self.error('DELETE', f'{path}?etag={first["context"]["etag"]}')
        self.assertEqual((status, error.code), (409, 10))
        self.call('DELETE', f'{path}?etag={second["context"]["etag"]}')
        self.assertEqual(self.error('DELETE', path)[0], 404)
        self.call('DELETE', f'{path}?allowMissing=true')

    def test_a_table_without_a_valid_id_is_rejected(self):
        rows = json_format.MessageToDict(table(self.one))
        for spec in (None, {}, {'contextId': ''}, {'contextId': 'a\nb: c'}, {'contextId': 'A'},
                     {'contextId': 'x', 'labels': {'contextId': 'y'}}):
            with self.subTest(spec):
                body = {'rows': rows} if spec is None else {
                    'rows': rows, 'spec': {'targetColumn': 'y', **spec}}
                status, error = self.error('POST', '/v1/contexts', body)
                self.assertEqual((status, error.code), (400, 3), error)

    def test_warm(self):
        for body in (None, {}):
            context = json.loads(self.call('POST', self.path('warm'), body))
            self.assertEqual(context['state'], 'STATE_RESIDENT')
            self.assertEqual(context['rowCount'], str(len(table(self.one).columns[0].numeric.values)))

    def test_predict(self):
        request = predict_request(self.one)
        request.include_mixtures = True
        self.same(self.call('POST', self.path('predict'), to_json(request)),
                  self.stub.Predict(request, metadata=about(self.one)))

    def test_predict_by_query_names(self):
        """Names of fields as in the proto are read as well; zeros and empty lists are written."""
        rows = to_json(predict_request(self.one))['rows']
        answer = json.loads(self.call('POST', self.path('predict'),
                                      {'rows': rows, 'include_mixtures': True}))
        self.assertEqual(answer['mixtures']['componentCount'],
                         str(self.stub.ListModels(pb.ListModelsRequest()).models[0].component_count))
        self.assertEqual((answer['quantiles'], answer['warnings']), ([], []))

    def test_missing_cells(self):
        request = predict_request(self.one)
        request.rows.columns[0].numeric.values[1] = math.nan
        body = to_json(request)
        self.assertEqual(body['rows']['columns'][0]['numeric']['values'][1], 'NaN')
        self.same(self.call('POST', self.path('predict'), body),
                  self.stub.Predict(request, metadata=about(self.one)))
        rows = pb.Table(columns=[
            pb.Column(name='x', integers=pb.IntegerValues(values=[1, 0], missing_rows=[1])),
            pb.Column(name='c', strings=pb.StringValues(values=['', 'red']))])
        request = pb.PredictRequest(context=f'contexts/{self.one}', rows=rows)
        self.same(self.call('POST', self.path('predict'), to_json(request)),
                  self.stub.Predict(request, metadata=about(self.one)))
        # null is no cell: the columns differ in length.
        body['rows']['columns'][0]['numeric']['values'][1] = None
        status, error = self.error('POST', self.path('predict'), body)
        self.assertEqual((status, error.code), (400, 3))

    def test_large_integers(self):
        """As strings, they are read exactly: the limit of the server applies to the digits sent."""
        largest, seed = 2**53, 2**64 - 1
        rows = {'columns': [{'name': 'x', 'integers': {'values': [str(largest)]}},
                            {'name': 'c', 'strings': {'values': ['red']}}]}
        self.call('POST', self.path('predict'), {'rows': rows})
        rows['columns'][0]['integers']['values'] = [str(largest + 1)]
        status, error = self.error('POST', self.path('predict'), {'rows': rows})
        self.assertEqual((status, error.code), (400, 3))
        self.assertIn(str(largest + 1), error.message)
        drawn = self.sample({**to_json(sample_request(self.one)), 'seed': str(seed)})
        self.assertEqual(drawn[-1]['summary']['seed'], str(seed))
        status, error = self.error('POST', self.path('sample'),
                                   {**to_json(sample_request(self.one)), 'seed': str(seed + 1)})
        self.assertEqual((status, error.code), (400, 3))

    def sample(self, body: Any) -> list[Any]:
        return [json.loads(line) for line in
                self.call('POST', self.path('sample'), body).decode().splitlines()]

    def test_sample(self):
        request = sample_request(self.one, 300)
        request.include_log_densities = True

        def values(responses) -> dict[tuple[int, int], tuple[float, float]]:
            found = {}
            for block in (block for response in responses for block in response.blocks.blocks):
                places = [(block.first_path + path, block.first_step + step)
                          for path in range(block.path_count) for step in range(block.step_count)]
                found |= dict(zip(places, zip(block.values, block.log_densities, strict=True),
                                  strict=True))
            return found
        lines = self.sample(to_json(request))
        there = [json_format.ParseDict(line, pb.SampleResponse()) for line in lines]
        here = list(self.stub.Sample(request, metadata=about(self.one)))
        self.assertEqual(values(there), values(here))
        self.assertEqual(len(values(there)), 300 * len(TARGETS.columns[0].numeric.values))
        for responses in (there, here):
            responses[-1].summary.ClearField('timings')
        self.assertEqual(there[-1], here[-1])
        # Without a seed, the server chooses one that every parser of JSON reads exactly.
        body = to_json(request)
        del body['seed']
        self.assertLess(int(self.sample(body)[-1]['summary']['seed']), 2**53)

    def test_log_density(self):
        request = pb.LogDensityRequest(context=f'contexts/{self.one}', rows=TARGETS,
                                       values=[-2.0, 1 / 3, 6.02e-23, 1e-7, 2.5, math.pi],
                                       include_terms=True)
        self.same(self.call('POST', self.path('logDensity'), to_json(request)),
                  self.stub.LogDensity(request, metadata=about(self.one)))

    def test_a_large_response(self):
        request = pb.LogDensityRequest(context=f'contexts/{self.one}', rows=TARGETS,
                                       values=[i / 100 for i in range(600)], include_mixtures=True)
        content = self.call('POST', self.path('logDensity'), to_json(request))
        self.assertGreater(len(content), MIB // 2)  # more than Envoy keeps of a stream elsewhere
        self.same(content, self.stub.LogDensity(request, metadata=about(self.one)))

    def test_errors_are_those_of_grpc(self):
        sample = to_json(sample_request(self.one))
        source = pb.Source(context_digest='0' * 64)
        for http_status, verb, one, body in (
                (400, 'sample', self.one, {**sample, 'pathCount': 0}),
                (400, 'predict', self.one, {'rows': {'columns': [sample['rows']['columns'][0]]}}),
                (400, 'sample', self.one, {**sample, 'expectedSource': to_json(source)}),
                (404, 'sample', 'none', sample)):
            with self.subTest(body):
                method, request = {
                    'sample': (self.stub.Sample, pb.SampleRequest),
                    'predict': (self.stub.Predict, pb.PredictRequest)}[verb]
                message = json_format.ParseDict({'context': f'contexts/{one}', **body}, request())
                with self.assertRaises(grpc.RpcError) as refused:
                    list(method(message, metadata=about(one)) if verb == 'sample' else
                         [method(message, metadata=about(one))])
                details = dict(refused.exception.trailing_metadata()).get('grpc-status-details-bin')
                expected = status_pb2.Status(code=refused.exception.code().value[0],
                                             message=refused.exception.details())
                if details is not None:
                    expected = status_pb2.Status.FromString(details)
                found_status, found = self.error('POST', self.path(verb, one), body)
                self.assertEqual((found_status, found), (http_status, expected))
        _, found = self.error('POST', self.path('sample'), {**sample, 'pathCount': 0})
        self.assertIn('BadRequest', str(found.details))

    def test_malformed_requests(self):
        for status, code, method, path, body in (
                (400, 3, 'POST', self.path('sample'), '{"pathCount": '),
                (400, 3, 'POST', self.path('sample'), {'pathCount': 'many'}),
                (400, 3, 'POST', self.path('sample'), {'context': f'contexts/{CONTEXTS[1]}'}),
                (400, 3, 'POST', self.path('sample'), None),
                (400, 3, 'GET', '/v1/contexts/Capital', None),
                (400, 3, 'GET', '/v1/contexts/a%20b', None),
                (404, 5, 'GET', '/v1/contexts?page=1', None),
                (404, 5, 'PATCH', f'/v1/contexts/{self.one}', {}),
                (404, 5, 'GET', '/v1/other', None)):
            with self.subTest(path=path, body=body):
                found, error = self.error(method, path, body)
                self.assertEqual((found, error.code), (status, code), error)
                self.assertNotEqual(error.message, '')

    def test_sizes_are_limited(self):
        def body(size: int, number: str) -> str:
            start, end = '{"rows":{"columns":[{"name":"x","numeric":{"values":[0', ']}}]}}'
            return start + f',{number}' * ((size - len(start + end)) // (len(number) + 1)) + end
        # The body itself.
        status, error = self.error('POST', self.path('predict'), body(5 * MIB, '0.12345678901234567'))
        self.assertEqual((status, error.code, len(error.details)), (413, 8, 0), error)
        # The message that it becomes, of 8 bytes for 2 characters: nothing that a retry would help.
        status, error = self.error('POST', self.path('predict'), body(3 * MIB, '0'))
        self.assertIn(status, (413, 429))
        self.assertEqual((error.code, 'RetryInfo' in str(error)), (8, False), error)
        # 4 MiB are read.
        status, error = self.error('POST', self.path('predict'),
                                   body(4 * MIB, '0.12345678901234567'))
        self.assertEqual((status, error.code), (400, 3), error)
        self.assertIn('rows; the limit is 4096', error.message)

    def test_http_2(self):
        curl = shutil.which('curl')
        if curl is None or b'HTTP2' not in subprocess.run(
                [curl, '--version'], capture_output=True, check=True).stdout:
            self.skipTest('there is no curl with HTTP/2')
        request = predict_request(self.one)
        done = subprocess.run(
            [curl, '--silent', '--show-error', '--http2', '--fail', '--write-out', '%{http_version}',
             '--cacert', self.edge.folder / 'tls' / 'tls.crt', '--json', json.dumps(to_json(request)),
             f'https://localhost:{self.edge.port}{self.path("predict")}'],
            capture_output=True, check=True, timeout=PATIENCE)
        content, version = done.stdout[:-1], done.stdout[-1:]
        self.assertEqual(version, b'2')
        self.same(content, self.stub.Predict(request, metadata=about(self.one)))


class ExamplesTest(TestCase):
    """The code of docs/json.md, with another address and certificate."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        [port] = free_ports(1)
        server = Server(cls.folder, 'server', port)
        cls.addClassCleanup(server.close)
        server.start()
        cls.edge = cls.start_edge('edge', port)
        cls.certificate = os.fspath(cls.edge.folder / 'tls' / 'tls.crt')
        subprocess.run(
            [CLIENT, 'register', ROOT / 'datasets' / 'penguins.csv', '--target', 'body_mass_g',
             '--name', 'penguins', '--server', f'localhost:{cls.edge.port}', '--tls-ca',
             cls.certificate], check=True, capture_output=True, timeout=PATIENCE)

    def output_of(self, program: str, language: str, *more: str, index: int = -1) -> str:
        """Runs the code with an index among those in a language."""
        if shutil.which(program) is None:
            self.skipTest(f'there is no {program}')
        page = (ROOT / 'docs' / 'json.md').read_text(encoding='utf-8')
        page = page[:page.index('## Values')]
        code = re.findall(rf'```{language}\n(.*?)```', page, re.DOTALL)[index]
        code = code.replace('localhost:8443', f'localhost:{self.edge.port}')
        code = code.replace('deploy/envoy/tls/tls.crt', self.certificate)
        done = subprocess.run([program, *more], input=code, capture_output=True, text=True,
                              check=False, timeout=PATIENCE,
                              env={**os.environ, 'NODE_EXTRA_CA_CERTS': self.certificate})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_curl(self):
        if shutil.which('curl') is None:
            self.skipTest('there is no curl')
        output = self.output_of('bash', 'sh', '-e')
        context, prediction = map(json.loads, output.replace('}{', '}\n{').splitlines())
        self.assertEqual(context['name'], 'contexts/penguins')
        self.assertEqual((len(prediction['means']), len(prediction['quantiles'])), (2, 6))
        for mean in prediction['means']:
            self.assertTrue(2500 < mean < 6500, mean)

    def test_register_by_curl(self):
        if shutil.which('curl') is None:
            self.skipTest('there is no curl')
        answer = json.loads(self.output_of('bash', 'sh', '-e', index=1))
        self.assertEqual(answer['context']['name'], 'contexts/sales')
        self.assertEqual(answer['context']['rowCount'], '3')

    def test_javascript(self):
        output = self.output_of('node', 'js', '--input-type=module')
        means, path = (json.loads(text) for text in re.findall(r'\[[^]]*]', output))
        for value in (*means, *path):
            self.assertTrue(1500 < value < 7500, value)

    def test_r(self):
        rscript = shutil.which('Rscript')
        if rscript is None or subprocess.run([rscript, '-e', 'library(httr2)'], check=False,
                                             capture_output=True).returncode != 0:
            self.skipTest('there is no R with httr2')
        self.assertRegex(self.output_of('Rscript', 'r', '-'), r'\[6,\] +\d')


if __name__ == '__main__':
    unittest.main()
