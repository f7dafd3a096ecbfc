"""What users import: few modules, and classes that show these modules as their own."""

from __future__ import annotations

import pathlib
import pickle
import pkgutil
from types import ModuleType
from typing import get_args

import chorale_client
import chorale_client.sklearn
import pytest

FOLDER = pathlib.Path(chorale_client.__file__).parent


def public() -> list[tuple[ModuleType, str]]:
    modules = ("aio", "functionals")
    names = [name for name in chorale_client.__all__ if name not in modules] + ["Server", "serve"]
    return [
        *((chorale_client, name) for name in names),
        *((chorale_client.aio, name) for name in ("Client", "Connecting", "Context", "connect")),
        (chorale_client.functionals, "Functional"),
        *((chorale_client.functionals, name) for name in get_args(chorale_client.functionals.Type)),
        (chorale_client.sklearn, "ChoraleRegressor"),
    ]


def test_other_modules_are_private() -> None:
    names = {module.name for module in pkgutil.iter_modules([str(FOLDER)])}
    assert {name for name in names if not name.startswith("_")} == {
        "aio",
        "functionals",
        "sklearn",
    }


@pytest.mark.parametrize(
    ("module", "name"), public(), ids=lambda value: getattr(value, "__name__", value)
)
def test_classes_and_functions_belong_to_the_public_modules(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    assert (value.__module__, value.__qualname__) == (module.__name__, name)
    assert value.__doc__
    assert pickle.loads(pickle.dumps(value)) is value


def test_errors_show_the_public_module() -> None:
    with pytest.raises(chorale_client.InvalidArgumentError) as caught:
        chorale_client.connect("nonsense")
    assert caught.exconly().startswith("chorale_client.InvalidArgumentError: ")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is chorale_client.InvalidArgumentError
