"""Imported first by the tests of this folder: finds the repository, skips where packages lack.

The tests run under unittest, under pytest and as scripts, from any folder.
"""

import importlib.util
import pathlib
import sys
import unittest

_PACKAGES = ("numpy", "pandas", "scipy", "sklearn", "statsmodels")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4]))
_missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
if _missing:
    _reason = f"needs {', '.join(_missing)}"
    _script = pathlib.Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    if _script.resolve().parent == pathlib.Path(__file__).resolve().parent:
        print(f"skipped: {_reason}")
        sys.exit(0)
    raise unittest.SkipTest(_reason)
