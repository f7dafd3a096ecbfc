#!/usr/bin/env python3
"""Writes the dashboards into FOLDER, by default the folder of this script.

Usage: make_dashboards.py [FOLDER]
To change a dashboard, change its module (service_dashboard.py, engine_dashboard.py or
tenants_dashboard.py), run this script, and commit the files that it writes.
"""

from __future__ import annotations

import json
import pathlib
import sys

from engine_dashboard import engine
from service_dashboard import service
from tenants_dashboard import tenants

DASHBOARDS = {'service.json': service, 'engine.json': engine, 'tenants.json': tenants}


def text_of(name: str) -> str:
    return json.dumps(DASHBOARDS[name](), indent=1) + '\n'


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    if folder.is_file():
        folder = folder.parent
    for name in DASHBOARDS:
        (folder / name).write_text(text_of(name), encoding='utf-8')


if __name__ == '__main__':
    main()
