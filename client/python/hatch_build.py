"""Makes the generated messages before a wheel or a source archive is built."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = pathlib.Path(__file__).resolve().parent


class MakeStubs(BuildHookInterface):  # type: ignore[type-arg]
    """A source archive has no proto folder beside it, but the messages made from it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build."""
        sys.path.insert(0, str(HERE))
        import make_stubs

        if make_stubs.PROTO.exists():
            make_stubs.main()
