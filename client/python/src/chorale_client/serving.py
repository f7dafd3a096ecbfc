"""Servers that this package starts itself.

Processes that ask for the same data folder share one server: `ServedFolder` says how they find each
other, chorale_client.server_keeper how long it lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from chorale_client import server_program
from chorale_client.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError
from chorale_client.served_folder import TRY, ServedFolder, place

if TYPE_CHECKING:
    from chorale_client.connection import Client

Path_ = str | os.PathLike[str]

# For how long the user's own server stays when its last user has gone: the next program may follow
# at once, and finds its tables encoded.
SHARED_GRACE_SECONDS = 10.0
_KEEPER = Path(__file__).with_name("server_keeper.py")
_MAX_SOCKET_PATH = 100  # bytes; Linux takes 107


def serve(
    data_dir: Path_ | None = None,
    *,
    models: Path_ | Sequence[Path_] | None = None,
    address: str | None = None,
    memory_mib: int | None = None,
    flags: Sequence[str] = (),
) -> Server:
    """Starts a server on this machine, or joins the one that serves the same data folder.

    The server ends when the last process that uses it has called `stop`, left the `with` block, or
    ended in whatever way, `kill -9` among them. A process uses it while it has a `Server`; one that
    it forks does not, unless it asks for one itself. Needs Linux and the package chorale-server.

    Args:
        data_dir: Where registered tables are kept; made if it does not exist. None: a temporary
            folder, which goes with the server.
        models: Model folders, the first of which is the default. None: the one that comes with the
            package.
        address: Where it listens: "unix:PATH", or "127.0.0.1:0" for a free port, to which every
            user of this machine can connect. None: a Unix socket, which no other user can open.
        memory_mib: MiB of memory that the server should stay below; None: no limit of its own.
        flags: More flags, such as "--threads=2"; `chorale-server --help` lists them. Variables of
            the environment do not count.

    Raises:
        UnavailableError: There is no server to start, or it does not start: the message has its
            log.
        FailedPreconditionError: The folder is served with other arguments than those given, or on
            another machine, or others than this user may write in it.
    """
    options = _options(models, address, memory_mib, flags)
    if data_dir is not None:
        return Server(ServedFolder(Path(data_dir).expanduser().resolve()), options)
    server_program.bundle()  # if there is none, no folder is left behind
    temporary = Path(tempfile.mkdtemp(prefix="chorale-"))
    return Server(ServedFolder(temporary, temporary=True), options)


def shared_address() -> str:
    """The address of this user's own server, which is started if nobody has.

    Its data folder is $CHORALE_HOME, else "chorale" in $XDG_CACHE_HOME (~/.cache). It ends ten
    seconds after the last process that has called this.

    Raises:
        UnavailableError: There is no server to start, or it does not start.
    """
    home = os.environ.get("CHORALE_HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(home or os.path.join(cache, "chorale")).absolute()
    with _shared_mutex:
        server = _shared.get(folder)
        if server is None or not server.running:
            server = Server(ServedFolder(folder), None, grace=SHARED_GRACE_SECONDS)
            _shared[folder] = server
        return server.address


class Server:
    """A server on this machine that this process uses; made by `serve`.

    Pickled, it is the same server for the process that reads it, as long as it runs.
    """

    def __init__(
        self, folder: ServedFolder, options: dict[str, Any] | None, *, grace: float = 0.0
    ) -> None:
        self._folder = folder
        self._options = options
        self._grace = grace
        self._process = os.getpid()
        self._users: int | None = folder.use()
        _alive.add(self)
        try:
            self._running = self._join_or_start()
            self._check_options()
        except BaseException:
            self.stop()
            raise

    @property
    def address(self) -> str:
        """Where it listens, as `chorale_client.connect` takes it."""
        return str(self._running["address"])

    @property
    def data_dir(self) -> Path:
        """Where it keeps registered tables."""
        return self._folder.data

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self._folder.path("server.log").read_text(encoding="utf-8", errors="replace")

    @property
    def running(self) -> bool:
        """Whether it is there, and this process uses it."""
        if self._users is None:
            return False
        return self._folder.has_keeper()

    def connect(self, **options: Any) -> Client:
        """A client of it; `options` are those of `chorale_client.connect`."""
        from chorale_client.connection import connect

        return connect(self.address, **options)

    def stop(self) -> None:
        """Ends the use of the server, and the server, unless another process uses it.

        What was drawn of samples in flight is delivered first. A second call does nothing.
        """
        if self._users is None or self._process != os.getpid():
            return
        users, self._users = self._users, None
        os.close(users)
        with contextlib.suppress(FileNotFoundError):  # a temporary folder goes with its server
            self._folder.end_server_if_unused()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        if getattr(self, "_users", None) is not None and self._process == os.getpid():
            os.close(self._users)  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rejoin, (self._folder.data,)

    def __repr__(self) -> str:
        return f"<Server at {self.address}, data in {self.data_dir}>"

    def _forget(self) -> None:
        """In a child after a fork: the parent's use is not the child's."""
        if self._users is not None:
            os.close(self._users)
            self._users = None

    def _join_or_start(self) -> dict[str, Any]:
        with self._folder.locked("start"):
            while True:
                with self._folder.locked("keeper", TRY) as lock:
                    if lock is not None:
                        return self._start(lock)
                running = self._folder.running()
                if running is not None:
                    return running
                # It was started by a process that has died since, and is not ready yet.
                time.sleep(0.02)

    def _start(self, lock: int) -> dict[str, Any]:
        plan = plan_of(self._folder, self._options or {}, self._grace)
        for name in ("server.json", "port"):
            self._folder.path(name).unlink(missing_ok=True)
        log = self._folder.open("server.log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        try:
            keeper = subprocess.Popen(
                [_python(), "-I", "-S", str(_KEEPER), json.dumps(plan), str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[lock],
                env=server_program.environment(),
                start_new_session=True,  # Ctrl-C in a terminal is not for it
            )
        finally:
            os.close(log)
        assert keeper.stdout is not None
        with keeper.stdout:
            line = keeper.stdout.readline()
        keeper.wait()  # the one that has answered is its child
        if not line:
            raise UnavailableError(f"the server does not start: {self.log.strip()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UnavailableError(f"the server does not start: {answer['error']}\n{answer['log']}")
        return answer

    def _check_options(self) -> None:
        for name, value in (self._options or {}).items():
            if value and self._running["options"].get(name) != value:
                raise FailedPreconditionError(
                    f"{self._folder.data} is served with {name}="
                    f"{self._running['options'].get(name)!r}, not {value!r}: give the same, leave "
                    "it out, or take another folder"
                )


def plan_of(folder: ServedFolder, options: dict[str, Any], grace: float) -> dict[str, Any]:
    """What the keeper is to do."""
    bundle = server_program.bundle()
    models = options.get("models") or [str(bundle / "share/chorale/models/default")]
    remove = [str(folder.data)] if folder.temporary else []
    address = options.get("address")
    if not address:
        path = folder.path("socket")
        if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
            path = Path(tempfile.mkdtemp(prefix="chorale-")) / "socket"
            remove.append(str(path.parent))
        address = f"unix:{path}"
    command = [
        str(bundle / "bin/chorale-server"),
        f"--models={','.join(models)}",
        f"--data_dir={folder.data}",
        f"--listen_address={address}",
        f"--port_file={folder.path('port')}",
        "--metrics_address=",
        "--drain_timeout=5s",
    ]
    if options.get("memory_mib"):
        command.append(f"--memory_limit_mib={options['memory_mib']}")
    return {
        "folder": str(folder.path("")),
        "command": command + options.get("flags", []),
        "address": address,
        "grace": grace,
        "remove": remove,
        "identity": {"options": options, "place": place(), "grace": grace},
    }


def _options(
    models: Path_ | Sequence[Path_] | None,
    address: str | None,
    memory_mib: int | None,
    flags: Sequence[str],
) -> dict[str, Any]:
    """The arguments of `serve` in one form; those that were not given are absent."""
    if isinstance(models, str | os.PathLike):
        models = [models]
    folders = [str(Path(model).expanduser().resolve()) for model in models or ()]
    if any("," in folder for folder in folders):
        raise InvalidArgumentError("models: a path has a comma", fields=["models"])
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


def _python() -> str:
    if not sys.executable:
        raise UnavailableError("the Python that runs does not know its program (sys.executable)")
    return sys.executable


def _rejoin(data: Path) -> Server:
    if not data.exists():
        raise UnavailableError(f"the server with its data in {data} has ended")
    return Server(ServedFolder(data), None)


_shared: dict[Path, Server] = {}
_shared_mutex = threading.Lock()
_alive: weakref.WeakSet[Server] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    global _shared_mutex
    _shared_mutex = threading.Lock()
    _shared.clear()
    for server in list(_alive):
        server._forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
