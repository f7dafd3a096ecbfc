"""Finds the server program: in the package chorale-server, or in a folder."""

from __future__ import annotations

import importlib
import os
import platform
from pathlib import Path

from chorale_client._errors import UnavailableError

_BUNDLE_VARIABLE = "CHORALE_SERVER_BUNDLE"
_CUDA_VARIABLE = "CHORALE_CUDA_LIBRARY"


def bundle() -> Path:
    """Returns the folder with bin/chorale-server and share/chorale/models/default.

    It is the folder in CHORALE_SERVER_BUNDLE, such as an unpacked release archive, or otherwise
    the folder of the package chorale-server.

    Raises:
        UnavailableError: There is no such folder; the message has the remedy.
    """
    named = os.environ.get(_BUNDLE_VARIABLE)
    if named:
        folder = Path(named).absolute()
        if not (folder / "bin/chorale-server").exists():
            raise UnavailableError(
                f"{_BUNDLE_VARIABLE}: {folder} does not contain bin/chorale-server"
            )
        return folder
    try:
        return Path(importlib.import_module("chorale_server").BUNDLE)
    except ModuleNotFoundError as error:
        if error.name != "chorale_server":
            raise
    raise UnavailableError(missing())


def missing() -> str:
    """Returns the message for a missing server program, with the remedy."""
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        return (
            "there is no server: install the package chorale-server (pip install chorale-server), "
            "or give the address of a running server: chorale_client.connect('HOST:PORT'), or the "
            "environment variable CHORALE_SERVER"
        )
    return (
        f"there is no server for {platform.system()} on {platform.machine()}: the package "
        "chorale-server supports only Linux on x86-64. Give the address of a server elsewhere: "
        "chorale_client.connect('HOST:PORT'), or the environment variable CHORALE_SERVER"
    )


def environment() -> dict[str, str]:
    """Returns the environment of a server that this package starts.

    It is the environment of this process without the variables that configure a server, so that
    the effective configuration depends only on the arguments of `chorale_client.serve`.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("CHORALE_")}
    library = os.environ.get(_CUDA_VARIABLE) or _cuda_library()
    if library:
        own[_CUDA_VARIABLE] = library
    return own


def _cuda_library() -> str | None:
    try:
        return str(importlib.import_module("chorale_server_cuda").LIBRARY)
    except ModuleNotFoundError:
        return None
