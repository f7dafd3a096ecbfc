"""Expressions of Prometheus that the dashboards share."""

from __future__ import annotations

from panels import Query

SCOPE = 'job=~"$job",instance=~"$instance"'


def rate(metric: str, scope: str = SCOPE) -> str:
    return f'rate({metric}{{{scope}}}[$__rate_interval])'


def quantile(q: float, histogram: str, by: str = '', scope: str = SCOPE) -> str:
    labels = f'le, {by}' if by else 'le'
    return f'histogram_quantile({q}, sum by ({labels}) ({rate(histogram + "_bucket", scope)}))'


def quantiles(histogram: str, *which: float) -> list[Query]:
    return [Query(quantile(q, histogram), f'p{q * 100:g}') for q in which]


def share(part: str, whole: str) -> str:
    return f'{part} / {whole}'
