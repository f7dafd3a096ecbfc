"""Keeps a server running while processes use it: a program that `_server_process` starts.

    python _server_keeper.py PLAN LOCK

PLAN is JSON (`_server_process.plan_of`). LOCK is the number of an inherited file descriptor that
holds the lock of the file "keeper". The program reports on standard output, in one line of JSON,
that the server is ready, or why it is not.

The keeper is a separate process between the users of the server and the server, for three reasons:

- The server must survive the process that started it while other processes use it.
- The kernel signals the death of a parent when the thread that started the child ends. The keeper
  has a thread that runs to the end; a user's process may not have one.
- Each user of the server holds a lock that the kernel releases when the process ends, in whatever
  way. The keeper waits for this lock.

It imports only the standard library, and is started without the package.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any

PR_SET_PDEATHSIG = 1
WATCHED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
MAX_LOG_BYTES = 16 << 20
LOG_PERIOD_SECONDS = 60.0
START_SECONDS = 300.0  # a server may wait for memory of a GPU, or read a large model
STOP_SECONDS = 20.0  # longer than the server's drain timeout
TAIL_LINES = 20

libc = ctypes.CDLL(None, use_errno=True)


class FilesOfFolder:
    """The files of a folder, also after it was renamed and another one has its name."""

    def __init__(self, path: str):
        self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._folder)

    def exists(self, name: str) -> bool:
        return os.access(name, os.F_OK, dir_fd=self._folder, follow_symlinks=False)

    def read(self, name: str) -> str:
        with open(self.open(name, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
            return file.read()

    def replace(self, name: str, text: str) -> None:
        new = name + ".new"
        self.remove(new)
        with open(
            self.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8"
        ) as file:
            file.write(text)
        os.rename(new, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)


def start_server(command: list[str], log: int) -> subprocess.Popen[bytes]:
    """Starts the server, which the kernel kills when this process ends in whatever way."""
    keeper = os.getpid()

    def end_with_keeper() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:  # the keeper ended before the call of prctl
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=end_with_keeper,  # safe: this process has no other thread yet
    )


def wait_until_ready(server: subprocess.Popen[bytes], files: FilesOfFolder) -> str | None:
    """Waits for the file that the server writes when it is ready; returns an error, or None."""
    deadline = time.monotonic() + START_SECONDS
    while not files.exists("port"):
        if server.poll() is not None:
            return f"it ended with status {server.returncode}"
        if time.monotonic() > deadline:
            return f"it was not ready after {START_SECONDS:g} s"
        got = signal.sigtimedwait(WATCHED, 0.01)
        if got is not None and got.si_signo != signal.SIGCHLD:
            return "it was stopped by a signal"
    return None


def wait_until_unused(users: int, grace: float) -> None:
    """Waits until `users` was unlocked for `grace` seconds, and locks it permanently.

    Later users wait until this process has ended, and then start a new server.
    """
    while True:
        fcntl.flock(users, fcntl.LOCK_EX)
        if grace == 0:
            return
        fcntl.flock(users, fcntl.LOCK_UN)
        time.sleep(grace)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return


def watch_users(users: int, grace: float) -> None:
    """Signals this process to end when no process uses the server."""
    wait_until_unused(users, grace)
    os.kill(os.getpid(), signal.SIGTERM)


def serve_until_unused(server: subprocess.Popen[bytes], log: int) -> None:
    """Returns when the server has ended or should end."""
    while server.poll() is None:
        got = signal.sigtimedwait(WATCHED, LOG_PERIOD_SECONDS)
        if got is not None and got.si_signo != signal.SIGCHLD:
            return
        if os.fstat(log).st_size > MAX_LOG_BYTES:
            os.truncate(log, 0)


def stop_server(server: subprocess.Popen[bytes]) -> None:
    """Drains the server, which sends the values drawn so far; kills it after a timeout."""
    if server.poll() is None:
        server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def report(message: dict[str, Any]) -> None:
    """Reports to the process that has started this process, if it is still running."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(message).encode() + b"\n")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def keep(plan: dict[str, Any]) -> None:
    """Runs a server from its start until it is unused, and ends it."""
    # Opened before a user can learn of the server, and rename or delete the folder.
    files = FilesOfFolder(plan["folder"])
    users = files.open("users", os.O_RDWR)
    # For appending, so that this process can truncate the log while the server writes.
    log = files.open("server.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    server = start_server(plan["command"], log)
    failed: dict[str, Any] | None = None
    try:
        failure = wait_until_ready(server, files)
        if failure is not None:
            lines = files.read("server.log").splitlines()
            failed = {"error": failure, "log": "\n".join(lines[-TAIL_LINES:])}
            return
        address = plan["address"]
        if address.endswith(":0"):
            address = address[:-1] + files.read("port").strip()
        running = {**plan["identity"], "address": address, "keeper": os.getpid()}
        files.replace("server.json", json.dumps(running))
        report(running)
        watch = (users, float(plan["grace"]))
        threading.Thread(target=watch_users, args=watch, daemon=True).start()
        serve_until_unused(server, log)
    finally:
        files.remove("server.json")
        stop_server(server)
        for path in plan["remove"]:
            shutil.rmtree(path, ignore_errors=True)
        if failed is not None:
            report(failed)  # after everything is removed


def main() -> None:
    """Keeps the server in a child process, which holds LOCK until it ends."""
    if os.fork() != 0:
        os._exit(0)  # the process that has started this process does not wait for the child
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.set_inheritable(int(sys.argv[2]), False)
    keep(json.loads(sys.argv[1]))


if __name__ == "__main__":
    main()
