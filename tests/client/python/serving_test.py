from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import pickle
import platform
import signal
import subprocess
import sys
import threading
import time

import chorale_client
import numpy as np
import pytest
from chorale_client import Server, _server_process, _server_program, _serving, serve
from chorale_client._served_folder import ServedFolder
from chorale_client._server_process import shared_address
from own_server import (
    FULL,
    keeper_of,
    processes_naming,
    server_of,
    start_script,
    wait_for,
    wait_for_end,
    wait_until_none_names,
)

pytestmark = pytest.mark.usefixtures("bundle")

TABLE = {"x": np.arange(20.0), "y": np.arange(20.0) * 2 + 1}
TRIES = 20 if FULL else 3


def wait_for_log(server: Server, text: str) -> None:
    """A line may come a moment after what it is about."""
    wait_for(f"the server prints {text}", lambda: text in server.log)


def test_a_server_in_a_temporary_folder_that_goes_with_it() -> None:
    with serve() as server:
        folder = server.data_dir
        with server.connect() as client:
            context = client.register(TABLE, target="y")
            samples = context.sample({"x": [3.5, 4.5]}, paths=10, seed=1)
        assert samples.values.shape == (10, 2)
        assert server.address.startswith("unix:")
        assert (folder.stat().st_mode & 0o777) == 0o700
        wait_for_log(server, "method=Sample code=OK")
        assert server.running
    assert not server.running
    assert not folder.exists()
    assert processes_naming(folder) == []


def test_two_who_ask_for_one_folder_share_a_server(data: pathlib.Path) -> None:
    first = serve(data)
    with serve(data) as second:
        assert second.address == first.address
        first.stop()
        assert second.running
        with second.connect() as client:
            client.register(TABLE, target="y", name="kept")
    with serve(data) as third, third.connect() as client:
        assert [context.name for context in client.contexts()] == ["kept"]


def test_a_free_port(data: pathlib.Path) -> None:
    with serve(data, address="127.0.0.1:0") as server:
        assert server.address.startswith("127.0.0.1:")
        assert not server.address.endswith(":0")
        with server.connect() as client:
            assert [model.name for model in client.models()] == ["default"]


def test_a_folder_whose_name_is_too_long_for_a_socket(tmp_path: pathlib.Path) -> None:
    with serve(tmp_path / ("long" * 40)) as server:
        folder = pathlib.Path(server.address.removeprefix("unix:")).parent
        with server.connect() as client:
            assert client.contexts() == []
    assert not folder.exists()


def test_arguments_reach_the_server_and_the_environment_does_not(
    data: pathlib.Path, monkeypatch: pytest.MonkeyPatch, bundle: pathlib.Path
) -> None:
    monkeypatch.setenv("CHORALE_NO_SUCH_FLAG", "1")  # the server refuses to start with it
    model = bundle / "share/chorale/models/default"
    with serve(
        data, models=model, memory_mib=4096, flags=["--threads=1", "--max_paths=3"]
    ) as server:
        wait_for_log(server, "memory_limit_mib=4096")
        wait_for_log(server, "threads=1")
        with server.connect() as client:
            context = client.register(TABLE, target="y")
            with pytest.raises(chorale_client.InvalidArgumentError):
                context.sample({"x": [1.0]}, paths=4)


def test_other_arguments_than_the_server_has_are_refused(data: pathlib.Path) -> None:
    with serve(data, flags=["--threads=1"]) as server:
        with serve(data) as same:  # no argument is one that differs
            assert same.address == server.address
        with pytest.raises(chorale_client.FailedPreconditionError, match="memory_mib"):
            serve(data, memory_mib=5000)
        with pytest.raises(chorale_client.FailedPreconditionError, match="threads=2"):
            serve(data, flags=["--threads=2"])
        assert server.running


def test_a_server_that_does_not_start_shows_why_and_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with pytest.raises(chorale_client.UnavailableError, match="unknown flag --nonsense"):
        serve(flags=["--nonsense"])
    with pytest.raises(chorale_client.UnavailableError, match="not_there"):
        serve(models=tmp_path / "not_there")
    assert list((tmp_path / "temporary").iterdir()) == []


def refused(data: pathlib.Path) -> str:
    """What the user is told who asks for this data folder."""
    with pytest.raises(chorale_client.FailedPreconditionError) as caught:
        serve(data)
    return str(caught.value)


def test_a_folder_that_somebody_has_prepared_is_not_believed(
    tmp_path: pathlib.Path,
) -> None:
    data, embedded = tmp_path / "data", tmp_path / "data/embedded"
    embedded.mkdir(parents=True, mode=0o700)
    data.chmod(0o700)
    ServedFolder(data)

    embedded.chmod(0o750)
    assert "chmod 700" in refused(data)
    embedded.chmod(0o700)
    data.chmod(0o777)
    assert "other users have access" in refused(data)
    data.chmod(0o1777)  # as /tmp
    ServedFolder(data)
    data.chmod(0o700)
    if os.geteuid() == 0:
        for folder in (embedded, data):
            os.chown(folder, 12345, -1)
            assert "belongs to another user (12345)" in refused(data)
            os.chown(folder, 0, -1)

    embedded.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    embedded.symlink_to(tmp_path / "elsewhere")
    assert "embedded is not a folder" in refused(data)
    embedded.unlink()
    embedded.write_text("")
    assert "embedded: File exists" in refused(data)
    assert "Not a directory" in refused(embedded / "below")
    assert "CHORALE_HOME" in refused(data)


@pytest.mark.parametrize("name", ["users", "start", "keeper", "server.log"])
def test_no_link_is_followed(name: str, tmp_path: pathlib.Path) -> None:
    data, victim = tmp_path / "data", tmp_path / "victim"
    folder = ServedFolder(data)
    victim.write_text("of value")
    folder.path(name).symlink_to(victim)
    assert name in refused(data)
    assert victim.read_text() == "of value"


@pytest.mark.parametrize("change", [{"keeper": 1}, {"keeper": -1}, {"place": []}, None])
def test_a_damaged_state_ends_no_process(
    change: dict[str, object] | None, data: pathlib.Path
) -> None:
    with serve(data) as server:
        state = data / "embedded/server.json"
        written = state.read_text()
        state.write_text(json.dumps({**json.loads(written), **change}) if change else "{")
        assert "server.json is damaged" in refused(data)
        state.write_text(written)
        assert server.running


def test_a_state_that_names_a_process_of_somebody_else(data: pathlib.Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        server = serve(data)
        keeper = keeper_of(data)
        os.kill(keeper, signal.SIGKILL)
        # Not its end: its first thread may be gone while another one still has the lock.
        wait_for("nobody has the lock", lambda: not ServedFolder(data).has_keeper())
        state = data / "embedded/server.json"
        state.write_text(json.dumps({**json.loads(state.read_text()), "keeper": bystander.pid}))
        server.stop()  # the lock says that there is no keeper
        assert bystander.poll() is None
        bystander.kill()


def test_without_the_package_of_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("CHORALE_SERVER_BUNDLE", str(tmp_path))
    with pytest.raises(chorale_client.UnavailableError, match="not contain bin/chorale-server"):
        serve()
    monkeypatch.delenv("CHORALE_SERVER_BUNDLE")
    monkeypatch.setitem(sys.modules, "chorale_server", None)  # as if it were not installed
    with pytest.raises(chorale_client.UnavailableError, match="pip install chorale-server"):
        chorale_client.connect()
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(chorale_client.UnavailableError, match="no server for Darwin"):
        _server_program.bundle()


def test_the_package_has_serve() -> None:
    assert chorale_client.serve is _serving.serve
    assert chorale_client.Server is _serving.Server
    with pytest.raises(AttributeError, match="no attribute 'server'"):
        getattr(chorale_client, "server")  # noqa: B009


def test_flags_must_be_a_list_of_flags(tmp_path: pathlib.Path) -> None:
    for wrong in ("--threads=2", ["threads=2"]):
        with pytest.raises(chorale_client.InvalidArgumentError, match="flags"):
            serve(tmp_path / "data", flags=wrong)
    with pytest.raises(chorale_client.InvalidArgumentError, match="comma"):
        serve(tmp_path / "data", models="a,b")


def test_it_outlives_the_thread_that_started_it(data: pathlib.Path) -> None:
    started: list[Server] = []
    thread = threading.Thread(target=lambda: started.append(serve(data)))
    thread.start()
    thread.join()
    with started[0] as server, server.connect() as client:
        assert len(client.models()) == 1


def test_threads_get_one_shared_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_server_process, "SHARED_GRACE_SECONDS", 0.0)
    addresses: list[str] = []
    threads = [
        threading.Thread(target=lambda: addresses.append(shared_address())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(addresses) == 8
    assert len(set(addresses)) == 1
    (server,) = [s for s in _server_process._shared.values() if s.address == addresses[0]]
    server.stop()


def test_a_shared_server_that_has_died_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_server_process, "SHARED_GRACE_SECONDS", 0.0)
    with chorale_client.connect() as client:
        (server,) = [s for s in _server_process._shared.values() if s.running]
        os.kill(server_of(server.data_dir), signal.SIGKILL)
        wait_for("the keeper has seen that", lambda: not server.running)
        assert shared_address() == client.address  # a client connects to it again
        assert len(client.models()) == 1
    _server_process._shared[server.data_dir].stop()


def test_ctrl_c_is_not_for_the_server(data: pathlib.Path) -> None:
    """A terminal sends it to all processes of a group."""
    code = (
        "import sys, chorale_client, time\n"
        "server = chorale_client.serve(sys.argv[1])\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(1000)\n"
        "except KeyboardInterrupt: pass\n"
        "print(server.running, flush=True)\n"
        "with server.connect() as client: print(len(client.models()))\n"
    )
    script = start_script(code, str(data), start_new_session=True)
    assert script.stdout is not None
    assert script.stdout.readline() == "ready\n"
    os.killpg(script.pid, signal.SIGINT)
    assert script.communicate()[0] == "True\n1\n"


def test_a_killed_parent_leaves_no_server_behind(tmp_path: pathlib.Path) -> None:
    code = (
        "import chorale_client, signal\n"
        "server = chorale_client.serve()\n"
        "print(server.data_dir, flush=True)\n"
        "signal.pause()\n"
    )
    for _ in range(TRIES):
        script = start_script(code)
        assert script.stdout is not None
        folder = pathlib.Path(script.stdout.readline().strip())
        server, keeper = server_of(folder), keeper_of(folder)
        script.kill()
        script.communicate()
        wait_for_end(server)
        wait_for_end(keeper)
        assert not folder.exists()


def test_a_parent_killed_while_the_server_starts_leaves_none(
    tmp_path: pathlib.Path,
) -> None:
    """Killed as soon as the keeper has its lock, or a little later."""
    code = "import sys, chorale_client; chorale_client.serve(sys.argv[1]); input()"
    for attempt in range(TRIES):
        folder = tmp_path / f"data{attempt}"
        script = start_script(code, str(folder), stdin=subprocess.PIPE)
        while not (folder / "embedded/server.log").exists():
            assert script.poll() is None
            time.sleep(0.005)
        time.sleep(0.02 * attempt)
        script.kill()
        script.communicate()
        wait_until_none_names(folder)


def test_a_forked_child_does_not_use_the_server(data: pathlib.Path) -> None:
    server = serve(data)
    ready, say_ready = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            server.stop()  # of the parent: does nothing here
            os.write(say_ready, b"!")
            signal.pause()
        finally:
            os._exit(1)
    os.read(ready, 1)
    try:
        assert server.running
        server.stop()
        assert processes_naming(f"--data_dir={data}") == []
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(say_ready)


def _ask(server: Server, answers: multiprocessing.Queue[int]) -> None:
    with server, server.connect() as client:
        answers.put(len(client.models()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_server_is_given_to_processes(
    method: str, data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The parent has no client: gRPC does not survive a fork."""
    code = (
        "import multiprocessing, sys\n"
        "sys.path.insert(0, sys.argv[3])\n"
        "from serving_test import _ask\n"
        "from chorale_client import serve\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context(sys.argv[2])\n"
        "    answers = context.Queue()\n"
        "    with serve(sys.argv[1]) as server:\n"
        "        work = [context.Process(target=_ask, args=(server, answers)) for _ in range(2)]\n"
        "        for process in work: process.start()\n"
        "        print([answers.get() for _ in work])\n"
        "        for process in work: process.join()\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    here = str(pathlib.Path(__file__).parent)
    printed = subprocess.run(
        [sys.executable, script, data, method, here], capture_output=True, text=True
    )
    assert printed.stdout == "[1, 1]\n", printed.stderr


def test_a_pickled_server_that_has_ended(tmp_path: pathlib.Path) -> None:
    with serve() as server:
        pickled = pickle.dumps(server)
        with pickle.loads(pickled) as same:
            assert same.address == server.address
    with pytest.raises(chorale_client.UnavailableError, match="has ended"):
        pickle.loads(pickled)


def test_sixteen_processes_share_one_server(data: pathlib.Path) -> None:
    """Forked from one that has no client yet, so that they start at the same time."""
    code = (
        "import multiprocessing, os, sys\n"
        "import numpy as np\n"
        "import chorale_client, chorale_client._server_process\n"
        "chorale_client._server_process.SHARED_GRACE_SECONDS = 0.2\n"
        "os.environ['CHORALE_HOME'] = sys.argv[1]\n"
        "def work(number, barrier, results):\n"
        "    barrier.wait()\n"
        "    with chorale_client.connect(connect_timeout=300) as client:\n"
        "        table = {'x': np.arange(30.0), 'y': np.arange(30.0) + number}\n"
        "        context = client.register(table, target='y', name=f'table{number}')\n"
        "        mean = context.predict({'x': [14.0]}).means[0]\n"
        "        barrier.wait()\n"
        "        names = [other.name for other in client.contexts()]\n"
        "        results.put((client.address, number, float(mean), len(names)))\n"
        "        barrier.wait()\n"
        "if __name__ == '__main__':\n"
        "    fork = multiprocessing.get_context('fork')\n"
        "    barrier, results = fork.Barrier(16), fork.Queue()\n"
        "    work_of = [(i, barrier, results) for i in range(16)]\n"
        "    processes = [fork.Process(target=work, args=each) for each in work_of]\n"
        "    for process in processes: process.start()\n"
        "    for _ in processes: print(*results.get(), flush=True)\n"
        "    for process in processes: process.join()\n"
    )
    script = start_script(code, str(data))
    lines = script.communicate()[0].splitlines()
    assert script.returncode == 0
    addresses, numbers, means, counts = zip(*(line.split() for line in lines), strict=True)
    assert len(lines) == 16
    assert set(addresses) == {f"unix:{data}/embedded/socket"}
    assert set(counts) == {"16"}, "each sees the tables of all"
    by_number = dict(zip(map(int, numbers), map(float, means), strict=True))
    assert [round(by_number[i] - by_number[0]) for i in range(16)] == list(range(16))
    log = data / "embedded/server.log"
    wait_for("the server serves", lambda: " serving " in log.read_text())
    assert log.read_text().count(" serving ") == 1
