"""The Chorale server as a package: programs, shared libraries, the default model, licences.

`chorale_client.serve()` and `chorale_client.connect()` of the package chorale-client start this
server. The command `chorale-server` runs it, and `chorale` is its command-line client.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn

BUNDLE = Path(__file__).resolve().parent / "bundle"
"""The release bundle: bin, lib, share."""

DEFAULT_MODEL = BUNDLE / "share/chorale/models/default"
"""The folder of the model that comes with the server."""


def program(name: str) -> Path:
    """The path of a program: "chorale-server" or "chorale"."""
    return BUNDLE / "bin" / name


def cuda_library() -> Path | None:
    """What the server runs on a GPU by, if the package chorale-server-cuda is there."""
    try:
        return Path(importlib.import_module("chorale_server_cuda").LIBRARY)
    except ModuleNotFoundError:
        return None


def run_client() -> NoReturn:
    """The command `chorale`."""
    _run("chorale")


def run_server() -> NoReturn:
    """The command `chorale-server`."""
    library = cuda_library()
    if library is not None:
        os.environ.setdefault("CHORALE_CUDA_LIBRARY", str(library))
    _run("chorale-server")


def _run(name: str) -> NoReturn:
    path = program(name)
    os.execv(path, [str(path), *sys.argv[1:]])
