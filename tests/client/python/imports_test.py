"""The modules of the package do not import each other in circles."""

from __future__ import annotations

import ast
import graphlib
import pathlib
import re

import chorale_client
import pytest

FOLDER = pathlib.Path(chorale_client.__file__).parent
PACKAGE = FOLDER.name


def imported(code: str, modules: set[str]) -> set[str]:
    """The modules that some code imports: at its start, in functions, and for type checkers."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # `from chorale_client import x` imports the module x, or what another module defines.
            of = node.module or ""
            names = [f"{of}.{alias.name}" if of == PACKAGE else of for alias in node.names]
        else:
            continue
        found |= {re.sub(rf"^{PACKAGE}\.", "", name) for name in names} & modules
    return found


def check(sources: dict[str, str]) -> None:
    """CycleError if modules import each other."""
    graph = {name: imported(code, set(sources)) for name, code in sources.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_there_are_no_circles() -> None:
    check({file.stem: file.read_text() for file in FOLDER.glob("*.py") if file.stem != "__init__"})


def test_modules_import_no_names_from_the_package() -> None:
    """They would import themselves: the package imports them."""
    modules = {file.stem for file in FOLDER.glob("*.py")}
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
                assert {alias.name for alias in node.names} <= modules, file.name


@pytest.mark.parametrize(
    "code",
    [
        "from chorale_client._b import x",
        "from chorale_client import _b",
        "import chorale_client._b",
        "def f():\n    from chorale_client._b import x",
        "if TYPE_CHECKING:\n    from chorale_client._b import x",
    ],
)
def test_circles_are_found(code: str) -> None:
    with pytest.raises(graphlib.CycleError):
        check(
            {"_a": code, "_b": "from chorale_client._c import y", "_c": "import chorale_client._a"}
        )
    check({"_a": code, "_b": "", "_c": "from chorale_client._a import z"})
