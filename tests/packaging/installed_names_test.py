#!/usr/bin/env python3
"""Whoever follows our documents, messages or metadata installs our packages, and no stranger's.

The name `chorale` on the public index belongs to somebody else. So a Python package whose name begins
with "chorale" may be required, or installed by name, only if it is one of this project's.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = {'chorale-client', 'chorale-server', 'chorale-server-cuda'}

NAME = r'chorale(?:[-_.][a-z0-9]+)*'
# What follows the command, up to the end of the command, of the sentence or of the comment's text.
INSTALLS = re.compile(
    r'\b(?:pip3?|pipx|uv|poetry|conda|mamba)\s+(?:pip\s+)?(?:install|add|download|wheel)\b([^\n;&#)]*)')
PACKAGE = re.compile(rf'(?<![\w./-])({NAME})(?![\w/*-])')
REQUIRED = re.compile(rf'(?<![\w./-])({NAME})(?:\[[a-z, ]+\]|(?:==|~=|>=)\d)')
IMPORTED = re.compile(r'^\s*(?:>>> )?(?:import|from)\s+(chorale)(?![\w-])(?!\.v1\b)', re.MULTILINE)


def strangers(text: str) -> list[str]:
    """The names in a text that are not ours and are to be installed, required or imported."""
    found = [name for command in INSTALLS.findall(text) for name in PACKAGE.findall(command)]
    found += REQUIRED.findall(text)
    names = [name for name in found if re.sub(r'[-_.]+', '-', name) not in OURS]
    return names + IMPORTED.findall(text)


def own_texts() -> dict[str, str]:
    listed = subprocess.run(
        ['git', '-C', ROOT, 'ls-files', '--cached', '--others', '--exclude-standard', '-z'],
        check=True, capture_output=True, text=True).stdout
    texts = {}
    for name in filter(None, listed.split('\0')):
        path = ROOT / name
        if path == pathlib.Path(__file__).resolve() or not path.is_file():
            continue
        try:
            texts[name] = path.read_text(encoding='utf-8')
        except UnicodeDecodeError:
            continue  # a picture, or weights
    return texts


class InstalledNamesTest(unittest.TestCase):

    def test_no_file_names_a_package_of_somebody_else(self) -> None:
        found = {name: strangers(text) for name, text in own_texts().items()}
        self.assertEqual({name: names for name, names in found.items() if names}, {})

    def test_the_packages_have_these_names(self) -> None:
        projects = [ROOT / 'client/python', *(ROOT / 'client/python_server' / each
                                              for each in ('server', 'cuda'))]
        names = {re.search(r'^name = "(.+)"$', (project / 'pyproject.toml').read_text(), re.M)[1]
                 for project in projects}
        self.assertEqual(names, OURS)

    def test_what_is_found(self) -> None:
        for text in ("pip install chorale", 'pip install --upgrade "chorale[plots]"', 'chorale>=0.1',
                     "needs matplotlib: pip install 'chorale[plots]'", 'uv add chorale_sklearn',
                     '"chorale[pandas,polars]"', 'dependencies = ["chorale==0.1.0"]',
                     'import chorale\n', '    from chorale.sklearn import ChoraleRegressor',
                     'pip install chorale chorale-server      # and a GPU'):
            self.assertNotEqual(strangers(text), [], text)
        for text in ("pip install 'chorale-client[plots]' pandas", 'chorale-server-cuda==0.1.0',
                     'pip install build/wheels/chorale_client-*.whl', 'pip install ./chorale',
                     'import chorale_client', 'pip install numpy   # then run chorale predict',
                     'sudo apt install ./chorale_0.1.0_amd64.deb', 'from chorale.v1 import chorale_pb2'):
            self.assertEqual(strangers(text), [], text)


if __name__ == '__main__':
    unittest.main()
