"""What the tests share: a server that does as it is told, and a real one."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterator

import chorale_client
import pytest
from fake_chorale import FakeChorale
from own_server import ROOT, SERVER, make_bundle, wait_until_none_names

# No bars, and no server but the one that a test names.
os.environ.pop("CHORALE_SERVER", None)
os.environ.setdefault("MPLBACKEND", "agg")


@pytest.fixture
def fake() -> Iterator[FakeChorale]:
    with FakeChorale() as server:
        yield server


@pytest.fixture
def client(fake: FakeChorale) -> Iterator[chorale_client.Client]:
    """Of the fake server; waits next to nothing between attempts."""
    retry = chorale_client.Retry(first_delay=0.001)
    with chorale_client.connect(fake.address, retry=retry, connect_timeout=60) as connected:
        yield connected


@pytest.fixture
def context(fake: FakeChorale, client: chorale_client.Client) -> chorale_client.Context:
    """A context of the fake server."""
    fake.context()
    return client.context("houses")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a real server with the model that is shipped."""
    if not SERVER.exists():
        pytest.fail(f"{SERVER} is not built: ninja -C build/release chorale-server")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        port, log = folder / "port", folder / "log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [
                    SERVER,
                    "--backend=cpu",
                    "--listen_address=127.0.0.1:0",
                    "--metrics_address=127.0.0.1:0",
                    f"--port_file={port}",
                    f"--models={ROOT}/models/default",
                    f"--data_dir={folder}/data",
                    "--context_pool_mib=64",
                    "--buffer_pool_mib=64",
                    "--lame_duck=0s",
                ],
                stdout=out,
                stderr=out,
            )
        try:
            while not port.exists():
                if process.poll() is not None:
                    pytest.fail(f"the server did not start:\n{log.read_text()}")
                time.sleep(0.02)
            yield f"127.0.0.1:{port.read_text().strip()}"
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def real(server: str) -> Iterator[chorale_client.Client]:
    with chorale_client.connect(server, connect_timeout=60) as connected:
        yield connected


@pytest.fixture
def bundle(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The bundle and the home folder of the servers that a test starts."""
    folder = make_bundle(tmp_path / "bundle")
    monkeypatch.setenv("CHORALE_SERVER_BUNDLE", str(folder))
    monkeypatch.setenv("CHORALE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CHORALE_SERVER", raising=False)
    return folder


@pytest.fixture
def data(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A data folder which nobody serves when the test has ended."""
    folder = tmp_path / "data"
    yield folder
    wait_until_none_names(folder)
