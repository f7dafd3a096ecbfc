#!/usr/bin/env python3
"""Tests deploy/envoy/chorale.binpb, the descriptor set by which Envoy converts JSON: it is that of the
protos, and each call has a path.

Usage: descriptors_test.py       needs the packages in requirements.txt. If the protos have changed,
`ninja -C build/release descriptors` makes the file anew.
"""

from __future__ import annotations

import pathlib
import tempfile
import unittest

from google.api import annotations_pb2
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
DESCRIPTORS = ROOT / 'deploy/envoy/chorale.binpb'
FILES = ('chorale/v1/chorale.proto', 'google/rpc/error_details.proto', 'google/rpc/status.proto',
         'grpc/health/v1/health.proto')


def read(path: pathlib.Path) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    described = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    return {file.name: file for file in described.file}


class DescriptorsTest(unittest.TestCase):

    def test_is_that_of_the_protos(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            made = pathlib.Path(name) / 'made'
            included = pathlib.Path(protoc.__file__).with_name('_proto')
            self.assertEqual(protoc.main(
                ['', f'-I{ROOT}/proto', f'-I{included}', '--include_imports',
                 f'--descriptor_set_out={made}', *FILES]), 0)
            expected = read(made)
        found = read(DESCRIPTORS)
        self.assertEqual(list(found), list(expected))
        for file, description in expected.items():
            # Those of google.protobuf come with protoc, and differ between its versions.
            if not file.startswith('google/protobuf/'):
                self.assertEqual(found[file], description,
                                 f'{file}: run ninja -C build/release descriptors')

    def test_each_call_has_a_path(self) -> None:
        """But the upload of a table in parts, which one request for JSON cannot make."""
        files = read(DESCRIPTORS)
        without = []
        for file in ('chorale/v1/chorale.proto', 'grpc/health/v1/health.proto'):
            for service in files[file].service:
                without += [method.name for method in service.method
                            if not method.options.HasExtension(annotations_pb2.http)]
        self.assertEqual(without, ['RegisterContext'])

    def test_has_the_details_of_errors(self) -> None:
        """Envoy converts only those that it knows."""
        [details] = [file for name, file in read(DESCRIPTORS).items()
                     if name == 'google/rpc/error_details.proto']
        self.assertLessEqual({'BadRequest', 'ErrorInfo', 'RetryInfo'},
                             {message.name for message in details.message_type})


if __name__ == '__main__':
    unittest.main()
