"""The processes that keep the servers which the package starts."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal

import chorale_client
import pytest
from chorale_client import _server_process, serve
from own_server import keeper_of, server_of, start_script, wait_for, wait_for_end

pytestmark = pytest.mark.usefixtures("bundle")


def test_a_keeper_watches_its_own_users_after_its_folder_was_moved(
    tmp_path: pathlib.Path, data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins to watch them when the files of another keeper are in their place."""
    late, watching = tmp_path / "late_keeper.py", tmp_path / "watching"
    late.write_text(
        "import pathlib, runpy, threading, time\n"
        "class Late(threading.Thread):\n"
        "    def start(self):\n"
        f"        while not pathlib.Path({str(data)!r}, 'elsewhere').exists(): time.sleep(0.01)\n"
        "        super().start()\n"
        f"        pathlib.Path({str(watching)!r}).touch()\n"
        "threading.Thread = Late\n"
        f"runpy.run_path({str(_server_process._KEEPER)!r}, run_name='__main__')\n"
    )
    with monkeypatch.context() as patched:
        patched.setattr(_server_process, "_KEEPER", late)
        server = serve(data)
    with server:
        moved = data / "embedded"
        moved.rename(data / "own")
        moved.mkdir(mode=0o700)
        (moved / "users").touch(mode=0o600)
        (data / "own").rename(data / "elsewhere")
        wait_for("the keeper watches its users", watching.exists)
        with pytest.raises(chorale_client.UnavailableError, match=r"LOCK|in use|another"):
            serve(data)
        for file in moved.iterdir():
            file.unlink()
        moved.rmdir()
        (data / "elsewhere").rename(moved)


def test_a_keeper_removes_the_state_from_its_own_folder_after_it_was_moved(
    data: pathlib.Path,
) -> None:
    moved = data / "embedded"
    with serve(data):
        keeper = keeper_of(data)
        moved.rename(data / "elsewhere")
        moved.mkdir(mode=0o700)
        state = (data / "elsewhere" / "server.json").read_text()
        (moved / "server.json").write_text(state)
        os.kill(keeper, signal.SIGTERM)
        wait_for_end(keeper)
        assert (moved / "server.json").read_text() == state
        assert not (data / "elsewhere" / "server.json").exists()


def test_a_server_runs_on_without_its_log(data: pathlib.Path) -> None:
    with serve(data) as server:
        (data / "embedded" / "server.log").unlink()
        os.kill(keeper_of(data), signal.SIGCHLD)  # it looks at the size of the log
        with server.connect() as client:
            assert len(client.models()) == 1
        assert server.running


def test_a_keeper_killed_before_it_has_bound_the_server_to_itself(
    tmp_path: pathlib.Path,
) -> None:
    """Between the fork and the call that asks the kernel to kill the child with its parent."""
    code = (
        "import os, signal, sys, time\n"
        "from chorale_client import _server_keeper\n"
        "output = os.dup(1)  # the child has another one\n"
        "class Libc:\n"
        "    def prctl(self, *arguments):\n"
        "        os.write(output, b'%d\\n' % os.getpid())\n"
        "        keeper = os.getppid()\n"
        "        os.kill(keeper, signal.SIGKILL)\n"
        "        while os.getppid() == keeper: time.sleep(0.001)\n"
        "        return real.prctl(*arguments)\n"
        "real, _server_keeper.libc = _server_keeper.libc, Libc()\n"
        "log = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
        "_server_keeper.start_server(['sleep', '1000'], log)\n"
    )
    script = start_script(code, str(tmp_path / "log"))
    assert script.stdout is not None
    child = int(script.stdout.readline())
    try:
        wait_for_end(child)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        script.communicate()


def test_a_killed_keeper_takes_the_server_along_and_the_next_one_starts(
    data: pathlib.Path,
) -> None:
    with serve(data) as server:
        process, keeper = server_of(data), keeper_of(data)
        os.kill(keeper, signal.SIGKILL)
        wait_for_end(process)
        wait_for("its lock is free", lambda: not server.running)
        with serve(data) as again, again.connect() as client:
            assert keeper_of(data) != keeper
            assert len(client.models()) == 1
