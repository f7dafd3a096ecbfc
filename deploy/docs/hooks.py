"""MkDocs calls this: adds the pages that are made from the proto and from the programs.

CHORALE_BUILD names the build folder whose programs are asked; build/release by default.
"""

import os
import pathlib
import sys
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))

# pylint: disable=wrong-import-position
from api_reference import api_reference  # noqa: E402
from program_reference import command_line_reference, configuration_reference  # noqa: E402


def on_files(files: Files, config: Any, **_: Any) -> Files:
    build = ROOT / os.environ.get('CHORALE_BUILD', 'build/release')
    server, client = build / 'server/chorale-server', build / 'client/cli/chorale'
    for program in (server, client):
        if not program.exists():
            raise PluginError(f'{program} is not built: its --help is a part of the documentation')
    pages = {'api.md': api_reference(ROOT / 'proto', 'chorale/v1/chorale.proto'),
             'command_line.md': command_line_reference(client),
             'configuration.md': configuration_reference(server)}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files
