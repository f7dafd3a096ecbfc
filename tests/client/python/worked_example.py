"""Runs the code of docs/python.md, as one program; keeps the pictures that it makes.

Usage: worked_example.py FOLDER, with the environment variable CHORALE_SERVER
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
import tempfile
from typing import Any

import matplotlib.pyplot as plt

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/python.md"


def code() -> list[str]:
    """The page's blocks of Python."""
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def run(folder: pathlib.Path) -> dict[str, Any]:
    """Runs the code in a folder, and returns its variables."""
    names: dict[str, Any] = {"__name__": "docs_python"}
    (folder / "datasets").symlink_to(ROOT / "datasets")
    before = pathlib.Path.cwd()
    os.chdir(folder)
    try:
        for number, block in enumerate(code()):
            exec(compile(block, f"docs/python.md, block {number + 1}", "exec"), names)
    finally:
        os.chdir(before)
    return names


def main() -> None:
    """Keeps each picture NAME.png as FOLDER/python_NAME.png."""
    out = pathlib.Path(sys.argv[1]).resolve()
    plt.rcParams["savefig.dpi"] = 110
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(folder)
        for picture in folder.glob("*.png"):
            (out / f"python_{picture.name}").write_bytes(picture.read_bytes())


if __name__ == "__main__":
    main()
