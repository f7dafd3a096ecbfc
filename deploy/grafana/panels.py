"""Parts of Grafana dashboards as plain dictionaries, and how they are laid out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

COLUMNS = 24  # of Grafana's grid
DATASOURCE = {'type': 'prometheus', 'uid': '${datasource}'}
# Of dashboards without version 2 of the schema, which Grafana before 12 cannot read.
SCHEMA_VERSION = 42

GREEN, YELLOW, RED = 'green', 'yellow', 'red'
Thresholds = Sequence[tuple[float, str]]  # colour from this value on


@dataclasses.dataclass(frozen=True)
class Query:
    expr: str
    legend: str = ''
    as_table: bool = False


@dataclasses.dataclass
class Panel:
    """A panel without its place."""
    width: int
    height: int
    body: Json


@dataclasses.dataclass
class Row:
    title: str  # empty: no heading
    panels: list[Panel]


def runbook(alert: str) -> Json:
    """A link from a panel to an alert's section."""
    return {'title': f'Runbook: {alert}', 'url': f'${{runbook}}#{alert.lower()}',
            'targetBlank': True}


def _targets(queries: Sequence[Query], instant: bool) -> list[Json]:
    return [{'datasource': DATASOURCE, 'refId': chr(ord('A') + i), 'expr': query.expr,
             'legendFormat': query.legend or '__auto', 'editorMode': 'code',
             'format': 'table' if query.as_table else 'time_series',
             'instant': instant, 'range': not instant}
            for i, query in enumerate(queries)]


def _thresholds(thresholds: Thresholds, base: str) -> Json:
    return {'mode': 'absolute',
            'steps': [{'color': base, 'value': None}] +
                     [{'color': color, 'value': value} for value, color in thresholds]}


def _panel(kind: str, title: str, description: str, alerts: Sequence[str]) -> Json:
    return {'type': kind, 'title': title, 'description': description, 'datasource': DATASOURCE,
            'links': [runbook(alert) for alert in alerts]}


def by_name(name: str, **properties: Any) -> Json:
    """An override for one series; `__` in a property's name stands for a dot."""
    return {'matcher': {'id': 'byName', 'options': name},
            'properties': [{'id': key.replace('__', '.'), 'value': value}
                           for key, value in properties.items()]}


def limit_line(name: str) -> Json:
    """Draws a series as a dashed line beside a stack instead of as a part of it."""
    return by_name(name, custom__stacking={'mode': 'none', 'group': 'limit'},
                   custom__lineStyle={'fill': 'dash', 'dash': [8, 8]}, custom__fillOpacity=0,
                   color={'mode': 'fixed', 'fixedColor': RED})


def timeseries(title: str, description: str, queries: Sequence[Query], unit: str, *,
               stack: str = 'none', thresholds: Thresholds = (), maximum: float | None = None,
               overrides: Sequence[Json] = (), alerts: Sequence[str] = (), width: int = 8,
               height: int = 8) -> Panel:
    """`stack` is none, normal or percent. Thresholds are drawn as lines."""
    defaults: Json = {
        'unit': unit, 'min': 0, 'color': {'mode': 'palette-classic'},
        'thresholds': _thresholds(thresholds, 'transparent'),
        'custom': {'drawStyle': 'line', 'lineInterpolation': 'linear', 'lineWidth': 1,
                   'fillOpacity': 10 if stack == 'none' else 60, 'gradientMode': 'none',
                   'showPoints': 'never', 'spanNulls': False, 'axisPlacement': 'auto',
                   'stacking': {'mode': stack, 'group': 'A'},
                   'thresholdsStyle': {'mode': 'dashed' if thresholds else 'off'}}}
    if maximum is not None:
        defaults['max'] = maximum
    body = _panel('timeseries', title, description, alerts) | {
        'targets': _targets(queries, instant=False),
        'fieldConfig': {'defaults': defaults, 'overrides': list(overrides)},
        'options': {'legend': {'displayMode': 'table', 'placement': 'bottom', 'showLegend': True,
                               'calcs': ['lastNotNull', 'mean', 'max'], 'sortBy': 'Last *',
                               'sortDesc': True},
                    'tooltip': {'mode': 'multi', 'sort': 'desc'}}}
    return Panel(width, height, body)


def stat(title: str, description: str, queries: Sequence[Query], unit: str, *,
         thresholds: Thresholds = (), base: str = GREEN, decimals: int | None = None,
         alerts: Sequence[str] = (), width: int = 4) -> Panel:
    defaults: Json = {'unit': unit, 'color': {'mode': 'thresholds'},
                      'thresholds': _thresholds(thresholds, base)}
    if decimals is not None:
        defaults['decimals'] = decimals
    body = _panel('stat', title, description, alerts) | {
        'targets': _targets(queries, instant=False),
        'fieldConfig': {'defaults': defaults, 'overrides': []},
        'options': {'colorMode': 'value', 'graphMode': 'area' if len(queries) == 1 else 'none',
                    'justifyMode': 'auto', 'orientation': 'auto',
                    'textMode': 'auto', 'wideLayout': True,
                    'reduceOptions': {'calcs': ['lastNotNull'], 'fields': '', 'values': False}}}
    return Panel(width, 4, body)


def table(title: str, description: str, key: str, columns: Sequence[tuple[str, Query, str]],
          labels: Sequence[str] = (), *, overrides: Sequence[Json] = (),
          alerts: Sequence[str] = (), width: int = COLUMNS, height: int = 8) -> Panel:
    """One line for each value of the label `key`: its other `labels`, and columns (name, query,
    unit)."""
    queries = [dataclasses.replace(query, as_table=True) for _, query, _ in columns]
    values = {f'Value #{chr(ord("A") + i)}': name for i, (name, _, _) in enumerate(columns)}
    order = [key, *labels, *values]
    body = _panel('table', title, description, alerts) | {
        'targets': _targets(queries, instant=True),
        'fieldConfig': {
            'defaults': {'custom': {'align': 'auto', 'cellOptions': {'type': 'auto'},
                                    'filterable': False}},
            'overrides': [by_name(name, unit=unit) for name, _, unit in columns] +
                         list(overrides)},
        'options': {'showHeader': True, 'cellHeight': 'sm',
                    'sortBy': [{'displayName': columns[0][0], 'desc': True}]},
        'transformations': [
            {'id': 'merge', 'options': {}},
            {'id': 'organize', 'options': {
                'excludeByName': {'Time': True},
                'indexByName': {name: i for i, name in enumerate(order)},
                'renameByName': {name: name.capitalize() for name in (key, *labels)} | values}}]}
    return Panel(width, height, body)


# ---- Dashboards -----------------------------------------------------------------------------


def label_values(name: str, metric: str, label: str) -> Json:
    """A variable with all values of a label, of which any number may be chosen."""
    query = f'label_values({metric}, {label})'
    return {'type': 'query', 'name': name, 'label': name.capitalize(), 'datasource': DATASOURCE,
            'query': {'query': query, 'refId': 'Variable'}, 'definition': query,
            'refresh': 2, 'sort': 1, 'multi': True, 'includeAll': True, 'allValue': '.*',
            'current': {'selected': True, 'text': ['All'], 'value': ['$__all']}}


def _fixed_variables() -> list[Json]:
    datasource = {'type': 'datasource', 'name': 'datasource', 'label': 'Data source',
                  'query': 'prometheus', 'refresh': 1, 'multi': False, 'includeAll': False}
    # Hidden; set it to the address at which docs/runbook.md is published.
    address = {'type': 'constant', 'name': 'runbook', 'query': 'docs/runbook.md', 'hide': 2}
    return [datasource, address]


def _place(rows: Sequence[Row]) -> list[Json]:
    """The panels with their places and numbers, from left to right, from top to bottom."""
    placed: list[Json] = []
    y = 0

    def add(body: Json, x: int, width: int, height: int) -> None:
        placed.append({'id': len(placed) + 1,
                       'gridPos': {'x': x, 'y': y, 'w': width, 'h': height}} | body)

    for row in rows:
        if row.title:
            add({'type': 'row', 'title': row.title, 'collapsed': False, 'panels': []}, 0, COLUMNS,
                1)
            y += 1
        x = height = 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, height = 0, y + height, 0
            add(panel.body, x, panel.width, panel.height)
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return placed


def dashboard(uid: str, title: str, description: str, variables: Sequence[Json],
              rows: Sequence[Row]) -> Json:
    return {
        'id': None, 'uid': uid, 'title': title, 'description': description, 'tags': ['chorale'],
        'schemaVersion': SCHEMA_VERSION, 'version': 1, 'editable': True, 'graphTooltip': 1,
        'timezone': 'browser', 'refresh': '30s', 'time': {'from': 'now-1h', 'to': 'now'},
        'links': [{'type': 'dashboards', 'title': 'Chorale', 'tags': ['chorale'],
                   'asDropdown': False, 'includeVars': True, 'keepTime': True,
                   'targetBlank': False},
                  {'type': 'link', 'title': 'Runbook', 'url': '${runbook}', 'icon': 'doc',
                   'targetBlank': True}],
        'annotations': {'list': [
            {'name': 'Starts', 'datasource': DATASOURCE, 'enable': True, 'hide': False,
             'iconColor': 'blue', 'titleFormat': 'Started: {{instance}}',
             'expr': 'changes(process_start_time_seconds{job=~"$job",instance=~"$instance"}'
                     '[$__rate_interval]) > 0'}]},
        'templating': {'list': [*_fixed_variables(), *variables]},
        'panels': _place(rows)}
