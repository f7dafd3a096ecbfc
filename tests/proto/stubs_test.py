#!/usr/bin/env python3
"""Tests that the stubs of the API for Go and Java compile and work, and the form of those for C#.

Usage: stubs_test.py (in an environment with tests/client/python/requirements.txt, with the messages
       of the Python client, and with the packages of the group [stubs] of deploy/packages.txt)

For Go and Java, a program in tests/proto/stubs sends a request with columns of every form to a
server in this process, and prints fields of the responses.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from google.protobuf import text_format

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'client/python/src'), str(ROOT / 'tests/client/python')]
from chorale_client._v1 import chorale_pb2 as api  # noqa: E402
from fake_chorale import FakeChorale, block, blocks, summary  # noqa: E402

PROTO = ROOT / 'proto'
API = 'chorale/v1/chorale.proto'
ANNOTATIONS = sorted(str(file.relative_to(PROTO)) for file in PROTO.glob('google/api/*.proto'))
PROGRAMS = ROOT / 'tests/proto/stubs'
# The distribution's compiler, because its plugins and libraries have the same version.
PROTOC = '/usr/bin/protoc'
GO_SOURCES = '/usr/share/gocode'
JARS = [f'/usr/share/java/{name}.jar' for name in (
    'geronimo-annotation-1.3-spec', 'grpc-api', 'grpc-context', 'grpc-core', 'grpc-netty',
    'grpc-protobuf', 'grpc-protobuf-lite', 'grpc-stub', 'guava', 'netty-buffer', 'netty-codec',
    'netty-codec-http', 'netty-codec-http2', 'netty-common', 'netty-handler', 'netty-resolver',
    'netty-transport', 'perfmark-api', 'protobuf')]
# The request that each program sends.
REQUEST = """
    context: "contexts/sales" path_count: 2 seed: 0
    order: ORDER_RANDOM_PER_PATH beyond_buffer: BEYOND_BUFFER_WRAP
    rows {
      columns { name: "price" numeric { values: [9.5, nan] meaning: MEANING_DURATION } }
      columns { name: "shop" categorical { categories: ["north", "süd"] codes: [1, -1] } }
      columns { name: "open" bools { values: [true, false] missing_rows: 1 } }
      columns { name: "units" integers { values: [-9007199254740992, 12] } }
      columns { name: "note" strings { values: ["", "été"] } }
      columns { name: "day" dates { days: [-719162, 20000] } }
      columns { name: "time" timestamps { microseconds: [-62135596800000000, 1764288000000001] } }
    }"""
# The responses that it gets, and its output.
ANSWERS = {
    'GetServerInfo': api.ServerInfo(version='1.2.3', features=[api.ServerInfo.FEATURE_TRACING]),
    'ListContexts': api.ListContextsResponse(contexts=[
        api.Context(name='contexts/sales', state=api.Context.STATE_RESIDENT)]),
    'Sample': [blocks(block(0, 0, [[0.1, -2.5]], rows=[1, 0])), summary(seed=2**64 - 1)]}
OUTPUT = ['version 1.2.3 FEATURE_TRACING', 'context contexts/sales STATE_RESIDENT',
          'value 0.1 row 1', 'value -2.5 row 0', 'seed 18446744073709551615']


def run(*command: str | pathlib.Path, **environment: str) -> str:
    """Runs a command and returns its output. An error has the output as its message."""
    result = subprocess.run([str(word) for word in command], env={**os.environ, **environment},
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            check=False)
    if result.returncode != 0:
        raise AssertionError(f'{command[0]} failed:\n{result.stdout[-4000:]}')
    return result.stdout


def protoc(*arguments: str) -> None:
    run(PROTOC, f'-I{PROTO}', *arguments, API)


class StubsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def _need(self, *paths: str) -> None:
        for path in paths:
            if shutil.which(path) is None and not pathlib.Path(path).exists():
                self.skipTest(f'{path} is not installed')

    def _calls(self, *program: str | pathlib.Path) -> None:
        """Tests the request and the output of a program."""
        with FakeChorale() as server:
            for method, answer in ANSWERS.items():
                server.answers[method].append(answer)
            self.assertEqual(run(*program, server.address).splitlines(), OUTPUT)
            expected = text_format.Parse(REQUEST, api.SampleRequest())
            (request,) = server.requests('Sample')
            self.assertEqual(str(request), str(expected))  # as texts, because NaN differs from NaN

    def test_go(self) -> None:
        self._need('go', 'protoc-gen-go', 'protoc-gen-go-grpc', PROTOC,
                   f'{GO_SOURCES}/src/google.golang.org/grpc')
        (self.work / 'src').mkdir()
        protoc(f'--go_out={self.work}/src', f'--go-grpc_out={self.work}/src')
        run('go', 'build', '-o', self.work / 'client', PROGRAMS / 'client.go', GO111MODULE='off',
            GOFLAGS='', GOPATH=f'{self.work}:{GO_SOURCES}', GOCACHE=str(ROOT / 'build/go_cache'))
        self._calls(self.work / 'client')

    def test_java(self) -> None:
        self._need('javac', 'java', 'grpc_java_plugin', PROTOC, *JARS)
        protoc(f'--java_out={self.work}', f'--grpc-java_out={self.work}', *ANNOTATIONS,
               f'--plugin=protoc-gen-grpc-java={shutil.which("grpc_java_plugin")}')
        classpath = ':'.join((*JARS, str(self.work)))
        run('javac', '-encoding', 'UTF-8', '-cp', classpath, '-d', self.work,
            PROGRAMS / 'Client.java', *self.work.rglob('*.java'))
        self._calls('java', '-cp', classpath, 'Client')

    def test_csharp(self) -> None:
        """Not compiled, because Debian does not have Protobuf's library for C#."""
        self._need(PROTOC)
        protoc(f'--csharp_out={self.work}')
        code = (self.work / 'Chorale.cs').read_text()
        self.assertIn('\nnamespace Chorale.V1 {\n', code)
        request = code.partition('  public sealed partial class SampleRequest ')[2]
        self.assertIn('    public bool HasSeed {\n', request.partition(' partial class ')[0])


if __name__ == '__main__':
    unittest.main()
