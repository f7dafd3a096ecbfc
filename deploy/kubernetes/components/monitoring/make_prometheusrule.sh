#!/usr/bin/env bash
# Writes prometheusrule.yaml: the groups of deploy/prometheus/rules.yml as an object of the
# Prometheus operator. Run it when the rules have changed.
#
# Usage: make_prometheusrule.sh [--runbook URL] [OUTPUT]
#
#   --runbook URL   the address of docs/runbook.md at your site, for the links in notifications
set -euo pipefail

runbook=docs/runbook.md
if [[ "${1:-}" == --runbook ]]; then
  runbook="${2:?--runbook needs an address}"
  shift 2
fi

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
rules="${here}/../../../prometheus/rules.yml"
output="${1:-${here}/prometheusrule.yaml}"

{
  cat <<'HEADER'
# Made from deploy/prometheus/rules.yml by make_prometheusrule.sh: change that file, not this one.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: chorale
  labels:
    app.kubernetes.io/name: chorale
    app.kubernetes.io/component: monitoring
    app.kubernetes.io/part-of: chorale
spec:
HEADER
  sed -e '/^---$/d' -e "s|runbook_url: docs/runbook.md|runbook_url: ${runbook}|" -e '/./s/^/  /' "${rules}"
} >"${output}"
