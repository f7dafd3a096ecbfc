"""The queries of a dashboard as Prometheus takes them, with Grafana's variables filled in."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent


def load(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / name).read_text(encoding='utf-8'))


def fill_in(expr: str, rate_interval: str, time_range: str,
            variables: Mapping[str, str] | None = None) -> str:
    """Variables without a value mean everything, as "All" does in Grafana."""
    known = {'__rate_interval': rate_interval, '__range': time_range, **(variables or {})}
    return re.sub(r'\$(\w+)', lambda name: known.get(name[1], '.*'), expr)


@dataclasses.dataclass(frozen=True)
class PanelQuery:
    panel: str
    kind: str
    expr: str  # with variables
    legend: str


def panel_queries(dashboard: Mapping[str, Any]) -> Iterator[PanelQuery]:
    for panel in dashboard['panels']:
        for target in panel.get('targets', []):
            yield PanelQuery(panel['title'], panel['type'], target['expr'],
                             target['legendFormat'])


class Prometheus:
    """Asks a Prometheus server by its HTTP API."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip('/')

    def _get(self, path: str, **parameters: object) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f'{self._address}/api/v1/{path}?{query}', timeout=30) as answer:
            return json.load(answer)['data']

    def now(self, expr: str, at: float) -> list[dict[str, Any]]:
        """[{'metric': labels, 'value': [time, text]}]."""
        return self._get('query', query=expr, time=at)['result']

    def over(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """[{'metric': labels, 'values': [[time, text]]}]."""
        return self._get('query_range', query=expr, start=start, end=end, step=step)['result']

    def alerts(self) -> list[dict[str, Any]]:
        return self._get('alerts')['alerts']
