#!/usr/bin/env python3
"""Draws the dashboards from a Prometheus server, much as Grafana shows them: docs/images/*.png.

Usage: draw.py [--prometheus ADDRESS] [--minutes N] [--rate-interval 1m] [--out FOLDER]
Needs matplotlib (and Pillow, which it brings along).
"""

from __future__ import annotations

import argparse
import datetime
import math
import pathlib
import re
import time
from typing import Any

import matplotlib

matplotlib.use('Agg')

# pylint: disable=wrong-import-position
from matplotlib import dates, pyplot, ticker  # noqa: E402
from matplotlib.patches import FancyBboxPatch  # noqa: E402
from PIL import Image  # noqa: E402

from make_dashboards import DASHBOARDS  # noqa: E402
from queries import Prometheus, fill_in, load  # noqa: E402

PAGE, CARD, EDGE, TEXT, FAINT = '#111217', '#181b1f', '#2c3235', '#d8d9da', '#8e8e8e'
PALETTE = ['#7eb26d', '#eab839', '#6ed0e0', '#ef843c', '#e24d42', '#1f78c1', '#ba43a9', '#705da0',
           '#508642', '#cca300', '#447ebc', '#c15c17']
COLORS = {'green': '#73bf69', 'yellow': '#f2cc0c', 'red': '#f2495c', 'transparent': TEXT}
COLUMN, LINE = 0.68, 0.36  # inches of the grid's cells
LEGEND_LINES = 5


def scaled(value: float, base: float, prefixes: str, unit: str) -> str:
    step = 0
    while abs(value) >= base and step < len(prefixes) - 1:
        value, step = value / base, step + 1
    return f'{value:.3g} {prefixes[step].strip()}{unit}'.strip()


def duration(seconds: float) -> str:
    if seconds == 0:
        return '0 s'
    for size, name in ((1, 's'), (1e-3, 'ms'), (1e-6, 'µs')):
        if abs(seconds) >= size:
            break
    if abs(seconds) >= 3600:
        size, name = 3600, 'h'
    elif abs(seconds) >= 120:
        size, name = 60, 'min'
    return f'{seconds / size:.3g} {name}'


def show(value: float, unit: str) -> str:
    if math.isnan(value):
        return '–'
    if unit == 's':
        return duration(value)
    if unit == 'percentunit':
        return f'{100 * value:.3g} %'
    if unit == 'bytes':
        return scaled(value, 1024, ' KMGTP', 'iB' if value >= 1024 else 'B')
    if unit == 'bool_yes_no':
        return 'Yes' if value else 'No'
    suffix = {'reqps': 'req/s', 'ops': 'ops/s', 'flops': 'FLOP/s'}.get(unit, '')
    return scaled(value, 1000, ' KMGTPE', suffix)


def legend_of(template: str, labels: dict[str, str]) -> str:
    if template == '__auto':
        return ', '.join(f'{k}={v}' for k, v in labels.items()) or 'value'
    return re.sub(r'\{\{(\w+)\}\}', lambda name: labels.get(name[1], ''), template)


class Drawing:
    """One dashboard, at one time."""

    def __init__(self, dashboard: dict[str, Any], source: Prometheus, minutes: float,
                 rate_interval: str) -> None:
        self.dashboard = dashboard
        self.source = source
        self.end = time.time()
        self.start = self.end - 60 * minutes
        self.step = max(1.0, 60 * minutes / 240)
        self.fill = (rate_interval, f'{round(60 * minutes)}s')
        rows = max(p['gridPos']['y'] + p['gridPos']['h'] for p in dashboard['panels'])
        self.size = (24 * COLUMN, rows * LINE + 0.5)
        self.figure = pyplot.figure(figsize=self.size, facecolor=PAGE)
        self.figure.text(0.008, 1 - 0.27 / self.size[1], dashboard['title'], color='white',
                         fontsize=14, weight='bold', va='center')

    def box(self, panel: dict[str, Any]) -> tuple[float, float, float, float]:
        """Left, bottom, width and height in inches, with a gap around them."""
        place = panel['gridPos']
        top = self.size[1] - 0.5 - place['y'] * LINE
        return (place['x'] * COLUMN + 0.05, top - place['h'] * LINE + 0.05,
                place['w'] * COLUMN - 0.1, place['h'] * LINE - 0.1)

    def axes(self, left: float, bottom: float, width: float, height: float) -> Any:
        return self.figure.add_axes((left / self.size[0], bottom / self.size[1],
                                     width / self.size[0], height / self.size[1]))

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        self.figure.text(x / self.size[0], y / self.size[1], text,
                         **({'color': TEXT, 'va': 'center'} | style))

    def card(self, panel: dict[str, Any]) -> tuple[float, float, float, float]:
        left, bottom, width, height = self.box(panel)
        self.figure.add_artist(FancyBboxPatch(
            (left / self.size[0], bottom / self.size[1]), width / self.size[0],
            height / self.size[1], boxstyle='square,pad=0', facecolor=CARD, edgecolor=EDGE,
            linewidth=0.8, zorder=-1))
        self.text(left + 0.1, bottom + height - 0.16, panel['title'], fontsize=9)
        return left, bottom, width, height

    def series(self, panel: dict[str, Any]) -> list[tuple[str, list[float], list[float]]]:
        found = []
        for target in panel['targets']:
            expr = fill_in(target['expr'], *self.fill)
            for one in self.source.over(expr, self.start, self.end, self.step):
                found.append((legend_of(target['legendFormat'], one['metric']),
                              [float(at) for at, _ in one['values']],
                              [float(value) for _, value in one['values']]))
        return [one for one in found if any(not math.isnan(v) for v in one[2])]

    # ---- Kinds of panels ----

    def row(self, panel: dict[str, Any]) -> None:
        left, bottom, _, height = self.box(panel)
        self.text(left + 0.02, bottom + height / 2, '▾ ' + panel['title'], fontsize=10.5,
                  color='white', weight='bold')

    def stat(self, panel: dict[str, Any]) -> None:
        left, bottom, width, height = self.card(panel)
        series = self.series(panel)
        defaults = panel['fieldConfig']['defaults']
        for i, (name, times, values) in enumerate(series):
            last = next((v for v in reversed(values) if not math.isnan(v)), math.nan)
            color = COLORS[[s['color'] for s in defaults['thresholds']['steps']
                            if s['value'] is None or last >= s['value']][-1]]
            if len(series) == 1:
                area = self.axes(left, bottom, width, height * 0.45)
                area.axis('off')
                area.set_xlim(self.start, self.end)
                area.set_ylim(0, 1.2 * max((v for v in values if not math.isnan(v)),
                                           default=1) or 1)
                area.fill_between(times, values, color=color, alpha=0.25, linewidth=0)
                area.plot(times, values, color=color, linewidth=1)
            x = left + width * (i + 0.5) / len(series)
            self.text(x, bottom + height * 0.53, show(last, defaults['unit']), fontsize=19,
                      ha='center', weight='bold', color=color)
            if len(series) > 1:
                self.text(x, bottom + 0.2, name, fontsize=8, ha='center', color=FAINT)

    def timeseries(self, panel: dict[str, Any]) -> None:
        left, bottom, width, height = self.card(panel)
        series = sorted(self.series(panel), key=lambda one: -_last(one[2]))
        legend = 0.15 * (min(len(series), LEGEND_LINES) + 1.4)
        main = self.axes(left + 0.62, bottom + legend + 0.22, width - 1.05 if _right(panel)
                         else width - 0.74, height - legend - 0.54)
        defaults = panel['fieldConfig']['defaults']
        overrides = overrides_of(panel)
        style_axes(main, defaults['unit'])
        other = None
        if _right(panel):
            other = main.twinx()
            units = {o.get('unit', defaults['unit']) for o in overrides.values()
                     if o.get('custom.axisPlacement') == 'right'}
            style_axes(other, units.pop())
            other.grid(False)
        colors = {one[0]: PALETTE[i % len(PALETTE)]
                  for i, one in enumerate(sorted(series, key=lambda one: one[0]))}
        stack: list[tuple[str, list[float], list[float]]] = []
        for name, times, values in series:
            own = overrides.get(name, {})
            stacked = defaults['custom']['stacking']['mode'] != 'none' and (
                'custom.stacking' not in own)
            if stacked:
                stack.append((name, times, values))
                continue
            if 'color' in own:
                colors[name] = COLORS[own['color']['fixedColor']]
            axes = other if own.get('custom.axisPlacement') == 'right' and other else main
            axes.plot(_dates(times), values, color=colors[name], linewidth=1.1,
                      linestyle='--' if 'custom.lineStyle' in own else '-')
            if 'custom.lineStyle' not in own and other is None:
                main.fill_between(_dates(times), values, color=colors[name], alpha=0.08,
                                  linewidth=0)
        if stack:
            self.stacked(main, stack, colors, defaults['custom']['stacking']['mode'] == 'percent')
        main.set_xlim(*_dates([self.start, self.end]))
        main.set_ylim(bottom=0, top=defaults.get('max'))
        if main.get_ylim()[1] < 1e-9:
            main.set_ylim(0, 1)
        if other is not None:
            other.set_ylim(bottom=0)
        for step in defaults['thresholds']['steps'][1:]:
            if step['value'] <= main.get_ylim()[1]:
                main.axhline(step['value'], color=COLORS[step['color']], linestyle='--',
                             linewidth=0.9)
        self.legend(panel, series, colors, overrides, (left, bottom, width, legend))

    @staticmethod
    def stacked(axes: Any, stack: list[tuple[str, list[float], list[float]]],
                colors: dict[str, str], percent: bool) -> None:
        times = sorted({at for _, series_times, _ in stack for at in series_times})
        rows = [[dict(zip(series_times, values)).get(at, 0.0) for at in times]
                for _, series_times, values in stack]
        rows = [[0.0 if math.isnan(v) else v for v in row] for row in rows]
        if percent:
            sums = [sum(column) or 1.0 for column in zip(*rows)]
            rows = [[v / s for v, s in zip(row, sums)] for row in rows]
            axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=0))
        axes.stackplot(_dates(times), *rows, colors=[colors[name] for name, _, _ in stack],
                       alpha=0.75, linewidth=0)

    def legend(self, panel: dict[str, Any], series: list[tuple[str, list[float], list[float]]],
               colors: dict[str, str], overrides: dict[str, dict[str, Any]],
               place: tuple[float, float, float, float]) -> None:
        left, bottom, width, height = place
        if not series:
            self.text(left + width / 2, bottom + 1.2, 'No data', fontsize=9, ha='center',
                      color=FAINT)
            return
        columns = [left + width - 1.75, left + width - 0.95, left + width - 0.12]
        y = bottom + height - 0.05
        if len(series) > LEGEND_LINES:
            self.text(left + 0.12, y, f'{LEGEND_LINES} of {len(series)} series', fontsize=6,
                      color=FAINT)
        for x, title in zip(columns, ('Last', 'Mean', 'Max')):
            self.text(x, y, title, fontsize=6, ha='right', color=FAINT)
        for name, _, values in series[:LEGEND_LINES]:
            y -= 0.15
            unit = overrides.get(name, {}).get('unit',
                                               panel['fieldConfig']['defaults']['unit'])
            finite = [v for v in values if not math.isnan(v)]
            self.text(left + 0.12, y, '▬', fontsize=7, color=colors[name])
            self.text(left + 0.3, y, name[:38], fontsize=6.5)
            for x, value in zip(columns, (finite[-1], sum(finite) / len(finite), max(finite))):
                self.text(x, y, show(value, unit), fontsize=6.5, ha='right')

    def table(self, panel: dict[str, Any]) -> None:
        left, bottom, width, height = self.card(panel)
        organize = panel['transformations'][1]['options']
        names = organize['renameByName']
        order = sorted(organize['indexByName'], key=organize['indexByName'].get)
        settings = overrides_of(panel)
        hidden = {name for name, own in settings.items() if 'custom.hidden' in own}
        lines: dict[str, dict[str, str]] = {}
        for i, target in enumerate(panel['targets']):
            column = f'Value #{chr(ord("A") + i)}'
            for one in self.source.now(fill_in(target['expr'], *self.fill), self.end):
                line = lines.setdefault(one['metric'].get(order[0], ''), {})
                line.update(one['metric'])
                line[column] = show(float(one['value'][1]),
                                    settings.get(names[column], {}).get('unit', 'none'))
        shown = [key for key in order if names[key] not in hidden]
        spaces = [left + 0.12 + (width - 0.2) * i / len(shown) for i in range(len(shown))]
        y = bottom + height - 0.42
        for x, key in zip(spaces, shown):
            self.text(x, y, names[key], fontsize=8, color='#6e9fff', weight='bold')
        for line in list(lines.values())[:int((height - 0.5) / 0.22)]:
            y -= 0.22
            for x, key in zip(spaces, shown):
                self.text(x, y, line.get(key, '')[:22], fontsize=8)

    def draw(self, path: pathlib.Path) -> None:
        for panel in self.dashboard['panels']:
            getattr(self, panel['type'])(panel)
        self.figure.savefig(path, dpi=80, facecolor=PAGE)
        # Few colours, so that the file is small.
        with Image.open(path) as picture:
            picture.convert('RGB').quantize(128).save(path, optimize=True)
        pyplot.close(self.figure)


def _last(values: list[float]) -> float:
    return next((v for v in reversed(values) if not math.isnan(v)), 0.0)


def _dates(times: list[float]) -> list[datetime.datetime]:
    return [datetime.datetime.fromtimestamp(at, datetime.timezone.utc) for at in times]


def overrides_of(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What is different for single series or columns, by their names."""
    found: dict[str, dict[str, Any]] = {}
    for override in panel['fieldConfig']['overrides']:
        found.setdefault(override['matcher']['options'], {}).update(
            {p['id']: p['value'] for p in override['properties']})
    return found


def _right(panel: dict[str, Any]) -> bool:
    return 'right' in [p['value'] for o in panel['fieldConfig']['overrides']
                       for p in o['properties'] if p['id'] == 'custom.axisPlacement']


def style_axes(axes: Any, unit: str) -> None:
    axes.set_facecolor(CARD)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(colors=FAINT, labelsize=6.5, length=0)
    axes.grid(color=EDGE, linewidth=0.6)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5, integer=unit == 'none'))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: show(value, unit)))
    axes.xaxis.set_major_locator(dates.AutoDateLocator(minticks=3, maxticks=6))
    axes.xaxis.set_major_formatter(dates.DateFormatter('%H:%M:%S'))


def draw_all(address: str, minutes: float, rate_interval: str, out: pathlib.Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in DASHBOARDS:
        path = out / name.replace('.json', '.png')
        Drawing(load(name), Prometheus(address), minutes, rate_interval).draw(path)
        print(f'{path}: {path.stat().st_size // 1024} KB')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--prometheus', default='http://127.0.0.1:9090')
    parser.add_argument('--minutes', type=float, default=60)
    parser.add_argument('--rate-interval', default='1m')
    parser.add_argument('--out', type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / 'docs' / 'images')
    options = parser.parse_args()
    draw_all(options.prometheus, options.minutes, options.rate_interval, options.out)


if __name__ == '__main__':
    main()
