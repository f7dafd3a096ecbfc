"""Servers that users start."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chorale_client import _server_program
from chorale_client._client import Client, connect
from chorale_client._errors import InvalidArgumentError
from chorale_client._served_folder import ServedFolder
from chorale_client._server_process import ServerProcess

Path_ = str | os.PathLike[str]


def serve(
    data_dir: Path_ | None = None,
    *,
    models: Path_ | Sequence[Path_] | None = None,
    address: str | None = None,
    memory_mib: int | None = None,
    flags: Sequence[str] = (),
) -> Server:
    """Starts a server on this machine, or joins the server of the same data folder.

    The server ends when the last process that uses it has called `stop`, left the `with` block, or
    ended, even by `kill -9`. A process uses the server while it has a `Server` object. A forked
    process does not use the server of its parent, unless it calls `serve`. Requires Linux and the
    package chorale-server.

    Args:
        data_dir: The folder for registered tables, which is created if it does not exist. None: a
            temporary folder, which is deleted when the server ends.
        models: Model folders; the first is the default model. None: the model of the package.
        address: The address to listen on: "unix:PATH", or "127.0.0.1:0" for a free port, to which
            every user of this machine can connect. None: a Unix socket that only this user can
            open.
        memory_mib: The memory limit of the server in MiB; None: no limit.
        flags: Additional flags, such as "--threads=2"; see `chorale-server --help`. The server
            ignores environment variables.

    Returns:
        The server; it is ready.

    Raises:
        UnavailableError: The package chorale-server is not installed, or the server does not start;
            the message contains the end of its log.
        FailedPreconditionError: The folder is served with different arguments or on another
            machine, or other users can write to it.

    Examples:
        >>> with serve("data") as server:
        ...     context = server.connect().register(frame, target="price")
    """
    options = _options(models, address, memory_mib, flags)
    if data_dir is not None:
        return Server(ServedFolder(Path(data_dir).expanduser().resolve()), options)
    _server_program.bundle()  # raises an error before a folder is created
    temporary = Path(tempfile.mkdtemp(prefix="chorale-"))
    return Server(ServedFolder(temporary, temporary=True), options)


class Server(ServerProcess):
    """A server on this machine that this process uses; created by `serve`.

    It can be pickled: the process that reads the pickle uses the same server, if it is running.
    """

    def connect(self, **options: Any) -> Client:
        """Returns a client of the server; `options` as for `chorale_client.connect`."""
        return connect(self.address, **options)

    def __enter__(self) -> Server:
        return self


def _options(
    models: Path_ | Sequence[Path_] | None,
    address: str | None,
    memory_mib: int | None,
    flags: Sequence[str],
) -> dict[str, Any]:
    """Returns the arguments of `serve` in a canonical form, without omitted arguments."""
    if isinstance(models, str | os.PathLike):
        models = [models]
    folders = [str(Path(model).expanduser().resolve()) for model in models or ()]
    if any("," in folder for folder in folders):
        raise InvalidArgumentError(
            "models: a path contains a comma, which is not supported", fields=["models"]
        )
    if isinstance(flags, str) or not all(flag.startswith("--") for flag in flags):
        raise InvalidArgumentError(
            f"flags: {flags!r}, must be a list of flags such as ['--threads=2']", fields=["flags"]
        )
    given = {
        "models": folders,
        "address": address,
        "memory_mib": memory_mib,
        "flags": list(flags),
    }
    return {name: value for name, value in given.items() if value}


# As in __init__.py, which imports this module only on first use.
Server.__module__ = serve.__module__ = "chorale_client"
