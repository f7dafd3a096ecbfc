"""Tags a wheel that has programs for one platform, and any Python 3."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TagPlatform(BuildHookInterface):  # type: ignore[type-arg]
    """make_wheels.py says which platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build."""
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['CHORALE_WHEEL_PLATFORM']}"
