#!/usr/bin/env bash
# Writes prometheusrule.yaml: the groups of deploy/prometheus/rules.yml as an object of the
# Prometheus operator. Run it when the rules have changed.
#
# Usage: make_prometheusrule.sh [OUTPUT]
set -euo pipefail

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
  sed -e '/^---$/d' -e '/./s/^/  /' "${rules}"
} >"${output}"
