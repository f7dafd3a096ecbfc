"""Where the server is, and for tests of servers that the package starts: what processes do."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[3]
SERVER = pathlib.Path(
    os.environ.get("CHORALE_TEST_SERVER", ROOT / "build/release/server/chorale-server")
)
FULL = os.environ.get("CHORALE_TEST_LENGTH") == "full"
PATIENCE_SECONDS = 300.0  # for what must happen at once, on whatever machine


def make_bundle(folder: pathlib.Path) -> pathlib.Path:
    """A folder laid out as a release bundle, of the programs and the model of this checkout."""
    assert SERVER.exists(), f"{SERVER} is not built: ninja -C build/release chorale-server"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/chorale-server").symlink_to(SERVER.resolve())
    (folder / "share/chorale/models").mkdir(parents=True)
    (folder / "share/chorale/models/default").symlink_to(ROOT / "models/default")
    return folder


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Waits for what must come about, on whatever machine."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:g} s: {what}"
        time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether there is a process with this id which has not ended."""
    try:
        status = pathlib.Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def wait_for_end(process: int) -> None:
    """Waits until a process has ended."""
    wait_for(f"process {process} has ended", lambda: not is_running(process))


def wait_until_none_names(text: pathlib.Path | str) -> None:
    """Waits until no other process has a text in its command line."""
    wait_for(f"no process names {text}", lambda: not processes_naming(text))


def processes_naming(text: pathlib.Path | str) -> list[int]:
    """The processes whose command lines have a text, but for this one."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if os.fsencode(str(text)) in line:
            found.append(int(entry.name))
    return found


def start_script(code: str, *arguments: str, **options: object) -> subprocess.Popen[str]:
    """Runs Python code in a process of its own, whose output can be read."""
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, **options
    )


def keeper_of(folder: pathlib.Path) -> int:
    """The process that keeps the server of a data folder."""
    return int(json.loads((folder / "embedded/server.json").read_text())["keeper"])


def server_of(folder: pathlib.Path) -> int:
    """The process of the server of a data folder itself."""
    (found,) = [
        process
        for process in processes_naming(f"--data_dir={folder}\0")
        if process != keeper_of(folder)
    ]
    return found
