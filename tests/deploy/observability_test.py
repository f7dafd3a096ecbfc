"""Tests of deploy/prometheus, deploy/grafana and docs/runbook.md against each other and the server.

Needs PyYAML, and promtool in build/monitoring (fetch_prometheus.sh) or in the folder that
CHORALE_MONITORING_PROGRAMS names.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import pathlib
import unittest
from collections.abc import Iterator

import yaml

import fake_exporter
from monitoring_processes import FACTOR, PROGRAMS, ROOT, RULES, shortened

GRAFANA = ROOT / 'deploy/grafana'
sys.path.insert(0, str(GRAFANA))

# pylint: disable=wrong-import-position
from make_dashboards import DASHBOARDS, text_of  # noqa: E402
from queries import fill_in, load, panel_queries  # noqa: E402
from service_dashboard import FAILURES  # noqa: E402

RULES_TEST = ROOT / 'tests/deploy/prometheus_rules_test.yml'
RUNBOOK = ROOT / 'docs/runbook.md'
TELEMETRY = ROOT / 'server/telemetry'
# Of Prometheus itself.
BUILT_IN = {'up', 'ALERTS'}
# Of Envoy: those that are used here. edge_test.py asks an Envoy whether it has them.
ENVOY = set((ROOT / 'tests/deploy/envoy_metrics.txt').read_text(encoding='utf-8').split())


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAMS / 'promtool', *map(str, arguments)], capture_output=True,
                          text=True, check=False)


def server_metrics() -> set[str]:
    """What the server's sources name as a metric."""
    text = '\n'.join(path.read_text(encoding='utf-8') for path in TELEMETRY.glob('*.cc'))
    return set(re.findall(r'"((?:chorale|process)_[a-z_]+)"', text))


def series_names(expr: str) -> set[str]:
    """Names of series in an expression; those of histograms without their endings."""
    expr = re.sub(r'\{[^}]*\}', '', re.sub(r'"[^"]*"', '""', expr))
    names = set(re.findall(
        r'(?<![\w:])(?:[a-z_]+:)?(?:chorale|process|envoy)_\w+(?::\w+)?|\bup\b|\bALERTS\b', expr))
    return {re.sub(r'_(bucket|sum|count)$', '', name) for name in names}


def rules() -> list[dict[str, object]]:
    return [rule for group in yaml.safe_load(RULES.read_text(encoding='utf-8'))['groups']
            for rule in group['rules']]


def alerts() -> list[dict[str, object]]:
    return [rule for rule in rules() if 'alert' in rule]


def all_panels() -> Iterator[tuple[str, dict[str, object]]]:
    for name in DASHBOARDS:
        for panel in load(name)['panels']:
            yield f'{name}: {panel["title"]}', panel


class RulesTest(unittest.TestCase):

    def test_promtool_accepts_them(self):
        checked = promtool('check', 'rules', RULES)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_alerts_fire_where_they_must(self):
        tested = promtool('test', 'rules', RULES_TEST)
        self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)

    def test_every_alert_has_a_case_for_both(self):
        silent: set[str] = set()
        fires: set[str] = set()
        for group in yaml.safe_load(RULES_TEST.read_text(encoding='utf-8'))['tests']:
            silent |= {case['alertname'] for case in group['alert_rule_test']
                       if not case.get('exp_alerts')}
            for case in group['promql_expr_test']:
                fires |= set(re.findall(r'Chorale\w+', str(case['expr'])))
                for sample in case['exp_samples']:
                    fires |= set(re.findall(r'Chorale\w+', sample['labels']))
        names = {str(alert['alert']) for alert in alerts()}
        self.assertEqual((names - silent, names - fires), (set(), set()))

    def test_a_broken_threshold_is_noticed(self):
        text = RULES.read_text(encoding='utf-8')
        for old, new in (('chorale_backlog_seconds > 30', 'chorale_backlog_seconds > 300'),
                         ('for: 90s', 'for: 1s'), ('up{job="chorale"} == 0', 'up{job="x"} == 0')):
            with self.subTest(new), tempfile.TemporaryDirectory() as folder:
                self.assertIn(old, text)
                (pathlib.Path(folder) / 'rules.yml').write_text(text.replace(old, new))
                test = RULES_TEST.read_text(encoding='utf-8').replace(
                    '../../deploy/prometheus/rules.yml', 'rules.yml')
                (pathlib.Path(folder) / 'test.yml').write_text(test)
                self.assertNotEqual(promtool('test', 'rules', f'{folder}/test.yml').returncode, 0)

    def test_every_alert_says_what_it_must(self):
        for alert in alerts():
            with self.subTest(alert['alert']):
                name = str(alert['alert'])
                self.assertIn(alert['labels']['severity'], ('critical', 'warning', 'info'))
                notes = alert['annotations']
                self.assertEqual(set(notes), {'summary', 'description', 'runbook_url'})
                self.assertEqual(notes['runbook_url'], f'docs/runbook.md#{name.lower()}')
                self.assertNotIn('\n', notes['description'])

    def test_failures_are_the_same_codes_everywhere(self):
        found = set(re.findall(r'code=~"([A-Z_|]+)"', RULES.read_text(encoding='utf-8')))
        self.assertEqual(found, {FAILURES})

    def test_shortened_rules_differ_in_times_alone(self):
        text = RULES.read_text(encoding='utf-8')
        short = shortened(text)
        times = r'for: \d+[smhd]|\[\d+[smhd]\]|offset \d+[smhd]'
        self.assertEqual(re.sub(times, '', text), re.sub(times, '', short))
        self.assertEqual(FACTOR, 30)
        self.assertIn('[2880s]', short)  # a day
        self.assertIn('for: 20s', short)  # 10 minutes


class RunbookTest(unittest.TestCase):

    def test_every_alert_has_a_section_and_every_section_an_alert(self):
        text = RUNBOOK.read_text(encoding='utf-8')
        sections = re.findall(r'^### (\w+)$', text, re.MULTILINE)
        self.assertEqual(sorted(sections), sorted(str(alert['alert']) for alert in alerts()))
        by_severity = {str(alert['alert']): alert['labels']['severity'] for alert in alerts()}
        for name in sections:
            with self.subTest(name):
                section = text.split(f'### {name}\n')[1].split('\n#')[0]
                self.assertTrue(section.strip().startswith(f'**{by_severity[name]}.**'))
                self.assertRegex(section, r'(?i)\*\*(look at and )?do\b')

    def test_links_lead_to_sections(self):
        text = RUNBOOK.read_text(encoding='utf-8')
        anchors = {name.lower() for name in re.findall(r'^#+ (\w+)', text, re.MULTILINE)}
        for anchor in re.findall(r'\]\(#(\w+)\)', text):
            self.assertIn(anchor, anchors)

    def test_panels_that_it_names_exist(self):
        titles = {title.split(': ', 1)[1] for title, _ in all_panels()}
        for name in re.findall(r'\*(?:Service|Engine|Tenants) / ([^*]+)\*',
                               RUNBOOK.read_text(encoding='utf-8')):
            self.assertTrue(any(title.startswith(name) for title in titles), name)

    def test_flags_that_it_names_exist(self):
        server = '\n'.join(path.read_text(encoding='utf-8')
                           for path in (ROOT / 'server').rglob('*.cc'))
        flags = set(re.findall(r'ABSL_FLAG\(\s*[\w:<>]+,\s*(\w+)', server)) | {
            'print_config', 'config', 'check', 'help'}
        text = re.sub(r'```.*?```', '', RUNBOOK.read_text(encoding='utf-8'), flags=re.DOTALL)
        self.assertEqual(set(re.findall(r'`--(\w+)', text)) - flags, set())


class DashboardsTest(unittest.TestCase):

    def test_they_are_what_the_script_makes(self):
        for name in DASHBOARDS:
            with self.subTest(name):
                self.assertEqual((GRAFANA / name).read_text(encoding='utf-8'), text_of(name),
                                 'run deploy/grafana/make_dashboards.py')
        self.assertEqual({path.name for path in GRAFANA.glob('*.json')}, set(DASHBOARDS))

    def test_expressions_parse(self):
        expressions = [fill_in(query.expr, '1m', '1h') for name in DASHBOARDS
                       for query in panel_queries(load(name))]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'panels.yml'
            path.write_text(yaml.safe_dump({'groups': [{'name': 'panels', 'rules': [
                {'record': f'panel:{i}', 'expr': expr}
                for i, expr in enumerate(expressions)]}]}))
            checked = promtool('check', 'rules', path)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertGreater(len(expressions), 60)

    def test_panels_are_described_and_have_units(self):
        for title, panel in all_panels():
            if panel['type'] == 'row':
                continue
            with self.subTest(title):
                self.assertTrue(panel['description'])
                self.assertTrue(panel['type'] == 'table' or
                                panel['fieldConfig']['defaults']['unit'])
                self.assertEqual(panel['datasource']['uid'], '${datasource}')

    def test_panels_do_not_overlap_and_are_few(self):
        for name in DASHBOARDS:
            dashboard = load(name)
            cells: set[tuple[int, int]] = set()
            for panel in dashboard['panels']:
                place = panel['gridPos']
                own = {(x, y) for x in range(place['x'], place['x'] + place['w'])
                       for y in range(place['y'], place['y'] + place['h'])}
                self.assertFalse(cells & own, panel['title'])
                self.assertLessEqual(place['x'] + place['w'], 24)
                cells |= own
            self.assertLess(len(dashboard['panels']), 40)
            self.assertIsNone(dashboard['id'])

    def test_links_lead_to_sections_of_the_runbook(self):
        names = {str(alert['alert']).lower() for alert in alerts()}
        linked: set[str] = set()
        for title, panel in all_panels():
            for link in panel.get('links', []):
                anchor = link['url'].split('#')[1]
                self.assertIn(anchor, names, title)
                linked.add(anchor)
        self.assertGreater(len(linked), 25)

    def test_variables_that_are_used_are_defined(self):
        for name in DASHBOARDS:
            dashboard = load(name)
            defined = {variable['name'] for variable in dashboard['templating']['list']}
            used = set(re.findall(r'\$\{?(\w+)', json.dumps(dashboard)))
            self.assertEqual(used - defined - {'__rate_interval', '__range', '__all'}, set(), name)


class MetricsTest(unittest.TestCase):

    def metrics(self) -> set[str]:
        """Until the server has the new names, those of fake_exporter.py."""
        found = server_metrics()
        return found if 'chorale_backlog_seconds' in found else fake_exporter.NAMES

    def test_only_metrics_that_exist_are_used(self):
        known = self.metrics() | BUILT_IN | ENVOY | {str(rule['record']) for rule in rules()
                                             if 'record' in rule}
        for rule in rules():
            with self.subTest(rule.get('alert', rule.get('record'))):
                self.assertEqual(series_names(str(rule['expr'])) - known, set())
        for name in DASHBOARDS:
            for query in panel_queries(load(name)):
                with self.subTest(f'{name}: {query.panel}'):
                    self.assertEqual(series_names(query.expr) - known, set())
                    self.assertTrue(series_names(query.expr))

    def test_every_metric_is_used_or_known_not_to_be(self):
        used: set[str] = set()
        for rule in rules():
            used |= series_names(str(rule['expr']))
        for name in DASHBOARDS:
            for query in panel_queries(load(name)):
                used |= series_names(query.expr)
        # For autoscalers and for whoever asks by hand.
        unused = {'chorale_backlog_values', 'process_virtual_memory_bytes'}
        self.assertEqual((self.metrics() | ENVOY) - used, unused)

    def test_the_fake_exporter_has_the_server_s_metrics(self):
        self.assertEqual(fake_exporter.NAMES, server_metrics())
        self.assertEqual(fake_exporter.EDGE_NAMES, ENVOY)

    def test_names_are_found_in_expressions(self):
        self.assertEqual(series_names('sum(rate(chorale_tick_seconds_sum{job="up"}[5m])) / up'),
                         {'chorale_tick_seconds', 'up'})
        self.assertEqual(series_names('instance:chorale_engine_busy:ratio_rate5m > 1'),
                         {'instance:chorale_engine_busy:ratio_rate5m'})


if __name__ == '__main__':
    unittest.main()
