#!/usr/bin/env python3
# ruff: noqa: PT009
"""Makes the wheels, and uses them in a clean environment on a PATH without compilers.

    tests/client/python_server/wheels_test.py BUNDLE [unittest's arguments]

BUNDLE is the folder that `ninja bundle` has made. Needs the packages in
client/python_server/requirements.txt, and for the environment the package index. Prints the sizes,
and the time from the command to the first picture.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
MAKE_WHEELS = ROOT / "client/python_server/make_wheels.py"
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "cmake", "ninja", "protoc", "nvcc")
MAX_SERVER_BYTES = 25_000_000
CUDA_LIBRARY = "libchorale_cuda.so"

bundle: pathlib.Path
work: pathlib.Path
wheels: dict[str, pathlib.Path]


def make_wheels(out: pathlib.Path) -> dict[str, pathlib.Path]:
    """The wheels, by the names of their distributions."""
    subprocess.run(
        [sys.executable, MAKE_WHEELS, "--bundle", bundle, "--out", out],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return {path.name.split("-")[0]: path for path in out.iterdir()}


def first_python_of_readme() -> str:
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    assert found is not None
    return found.group(1)


class WheelsTest(unittest.TestCase):
    def test_there_is_a_wheel_for_each_package_and_the_cuda_library_has_its_own(self) -> None:
        expected = {"chorale_client", "chorale_server"}
        if (bundle / "lib" / CUDA_LIBRARY).exists():
            expected.add("chorale_server_cuda")
        self.assertEqual(set(wheels), expected)
        for name, path in wheels.items():
            with zipfile.ZipFile(path) as wheel:
                has_cuda = any(member.endswith(CUDA_LIBRARY) for member in wheel.namelist())
            self.assertEqual(has_cuda, name == "chorale_server_cuda")
            print(f"  {path.name}: {path.stat().st_size / 1e6:.1f} MB")
        self.assertLess(wheels["chorale_server"].stat().st_size, MAX_SERVER_BYTES)

    def test_tags_are_what_auditwheel_says(self) -> None:
        self.assertTrue(wheels["chorale_client"].name.endswith("-py3-none-any.whl"))
        server = wheels["chorale_server"]
        found = re.search(r"-py3-none-(manylinux_2_\d+_\w+)\.whl$", server.name)
        assert found is not None, server.name
        shown = subprocess.run(
            [sys.executable, "-m", "auditwheel", "show", server],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        self.assertIn(f'"{found.group(1)}"', shown)
        if "chorale_server_cuda" in wheels:
            self.assertIn(found.group(1), wheels["chorale_server_cuda"].name)

    def test_the_server_wheel_is_the_bundle_with_its_licences(self) -> None:
        inside = "chorale_server/bundle/"
        with zipfile.ZipFile(wheels["chorale_server"]) as wheel:
            modes = {
                info.filename: stat.S_IMODE(info.external_attr >> 16) for info in wheel.infolist()
            }
            bill = json.loads(wheel.read(f"{inside}share/doc/chorale/sbom.cdx.json"))
        for path in bundle.rglob("*"):
            name = str(path.relative_to(bundle))
            if path.is_file() and CUDA_LIBRARY not in name and "cuda-toolkit" not in name:
                self.assertIn(inside + name, modes)
        for name in ("bin/chorale", "bin/chorale-server"):
            self.assertEqual(modes[inside + name] & 0o111, 0o111)
        listed = {component["bom-ref"] for component in bill["components"]}
        self.assertIn("file:bin/chorale-server", listed)
        self.assertNotIn(f"file:lib/{CUDA_LIBRARY}", listed)
        self.assertEqual(set(bill["dependencies"][0]["dependsOn"]), listed)
        if "chorale_server_cuda" in wheels:
            with zipfile.ZipFile(wheels["chorale_server_cuda"]) as wheel:
                self.assertTrue(
                    any(name.endswith("licenses/LICENSE.cuda-toolkit") for name in wheel.namelist())
                )

    def test_made_again_they_have_the_same_bytes(self) -> None:
        again = make_wheels(work / "again")
        self.assertEqual(set(again), set(wheels))
        for name, path in wheels.items():
            digests = {
                hashlib.sha256(each.read_bytes()).hexdigest() for each in (path, again[name])
            }
            self.assertEqual(len(digests), 1, f"{name} differs")


class CleanEnvironmentTest(unittest.TestCase):
    """What a user does who has pip and nothing else."""

    folder: pathlib.Path
    environment: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = work / "clean"
        venv.create(cls.folder, with_pip=True, symlinks=True)
        home = work / "home"
        home.mkdir()
        # Not even what the system has: the programs of the environment are all that is found.
        cls.environment = {
            "PATH": str(cls.folder / "bin"),
            "HOME": str(home),
            "MPLBACKEND": "agg",
            "LANG": "C.UTF-8",
            **{
                name: value
                for name, value in os.environ.items()
                if name.lower().endswith("_proxy") or name.startswith(("PIP_", "SSL_", "REQUESTS_"))
            },
        }
        begun = time.monotonic()
        done = cls.run_there(
            "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            "--disable-pip-version-check",
            *map(str, wheels.values()),
            "pandas",
            "matplotlib",
            "scikit-learn",
        )
        if re.search("NewConnectionError|NameResolutionError|Timeout|ProxyError", done.stderr):
            raise unittest.SkipTest("the package index cannot be reached")
        assert done.returncode == 0, done.stderr
        print(f"  pip install: {time.monotonic() - begun:.1f} s")

    @classmethod
    def tearDownClass(cls) -> None:
        """Ends the user's own server, which would stay for some seconds."""
        code = "import chorale_client, sys; chorale_client.serve(sys.argv[1]).stop()"
        cls.run_there("python", "-c", code, f"{cls.environment['HOME']}/.cache/chorale")

    @classmethod
    def run_there(
        cls, program: str, *arguments: str, cwd: pathlib.Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        path = cls.folder / "bin" / program
        return subprocess.run(
            [path, *arguments], env=cls.environment, capture_output=True, text=True, cwd=cwd or work
        )

    def check_output(self, program: str, *arguments: str, cwd: pathlib.Path | None = None) -> str:
        done = self.run_there(program, *arguments, cwd=cwd)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_there_is_no_compiler(self) -> None:
        for program in COMPILERS:
            self.assertIsNone(shutil.which(program, path=self.environment["PATH"]))

    def test_the_first_lines_of_the_readme_make_a_picture(self) -> None:
        here = work / "here"
        here.mkdir()
        (here / "datasets").symlink_to(ROOT / "datasets")
        code = first_python_of_readme() + (
            "\nassert samples.values.shape[0] == 1000\nprint(samples.timings.total)\n"
        )
        begun = time.monotonic()
        sampling = float(self.check_output("python", "-c", code, cwd=here))
        (picture,) = here.glob("*.png")
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        print(f"  from the command to the picture: {time.monotonic() - begun:.1f} s")
        print(f"  of which sampling in the server: {sampling:.2f} s")

    def test_a_regressor_of_scikit_learn(self) -> None:
        code = (
            "from chorale_client.sklearn import ChoraleRegressor\n"
            "model = ChoraleRegressor().fit([[i] for i in range(30)], range(30))\n"
            "print(abs(model.predict([[12.0]])[0] - 12.0) < 3.0)\n"
        )
        self.assertEqual(self.check_output("python", "-c", code), "True\n")

    def test_the_package_brings_what_the_command_line_brings(self) -> None:
        program = ROOT / "tests/client/python/overhead.py"
        self.assertIn("bring the same", self.check_output("python", str(program), "--check"))

    def test_the_programs(self) -> None:
        self.assertIn("chorale-server", self.check_output("chorale-server", "--version"))
        self.assertIn("register", self.check_output("chorale", "--help"))
        self.assertEqual(self.run_there("chorale-server", "--nonsense").returncode, 2)

    def test_the_server_finds_the_library_for_gpus(self) -> None:
        if "chorale_server_cuda" not in wheels:
            self.skipTest("the bundle has no GPU backend")
        code = (
            "from chorale_client import _server_program\n"
            "print(_server_program.environment()['CHORALE_CUDA_LIBRARY'])\n"
        )
        library = pathlib.Path(self.check_output("python", "-c", code).strip())
        self.assertEqual(library.name, CUDA_LIBRARY)
        self.assertTrue(library.is_relative_to(self.folder))
        self.assertTrue(library.exists())


def main() -> None:
    global bundle, work, wheels
    bundle = pathlib.Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        wheels = make_wheels(work / "wheels")
        unittest.main()


if __name__ == "__main__":
    main()
