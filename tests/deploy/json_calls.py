"""What json_test.py and json_proxy_test.py share: requests for JSON to Envoy, and their errors."""

import http.client
import json
import os
import ssl
from typing import Any

from google.protobuf import json_format

from edge_case import EdgeTestCase
from edge_processes import PATIENCE, Edge, status_pb2

JSON_HEADERS = {'content-type': 'application/json'}


class TestCase(EdgeTestCase):
    edge: Edge

    def connect(self, edge: Edge | None = None) -> http.client.HTTPSConnection:
        edge = edge or self.edge
        trusted = ssl.create_default_context(cafile=os.fspath(edge.folder / 'tls' / 'tls.crt'))
        connection = http.client.HTTPSConnection('localhost', edge.port, context=trusted,
                                                 timeout=PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None,
                edge: Edge | None = None) -> tuple[int, bytes]:
        """Status and body of a response."""
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        connection = self.connect(edge)
        connection.request(method, path, body=body, headers=JSON_HEADERS | (headers or {}))
        response = connection.getresponse()
        return response.status, response.read()

    def call(self, method: str, path: str, body: Any = None) -> bytes:
        status, content = self.request(method, path, body)
        self.assertEqual(status, 200, content)
        return content

    def error(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None,
              edge: Edge | None = None) -> tuple[int, status_pb2.Status]:
        """HTTP status and google.rpc.Status."""
        status, content = self.request(method, path, body, headers, edge)
        self.assertGreaterEqual(status, 400, content)
        return status, json_format.Parse(content, status_pb2.Status())
