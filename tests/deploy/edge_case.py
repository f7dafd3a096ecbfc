"""The test case of edge_test.py, json_test.py and json_proxy_test.py."""

import pathlib
import tempfile
import unittest

from edge_processes import Edge


class EdgeTestCase(unittest.TestCase):
    """With a folder for the processes of the class, which end before it is removed."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix='chorale-edge-')
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    @classmethod
    def start_edge(cls, name: str, servers, changes=None) -> Edge:
        edge = Edge(cls.folder / name, servers, changes)
        cls.addClassCleanup(edge.close)
        return edge
