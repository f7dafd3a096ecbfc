#!/usr/bin/env bash
# Runs Envoy with the configuration in a folder, and drains it on SIGTERM or SIGINT: clients are told
# to connect elsewhere, calls in flight finish, then it ends.
#
# Usage: deploy/envoy/run.sh [--folder FOLDER] [--servers FILE] [--drain SECONDS] [--self-signed]
#                            [--make-certificate] [--check] [-- ENVOY_ARGUMENT...]
#
# The image and the Debian package call it chorale-edge.
#
#   --folder FOLDER    where envoy.yaml and what it names are (default: this script's folder)
#   --servers FILE     the servers, in FOLDER (default: servers.yaml); one_server.yaml: one on
#                      this host
#   --drain SECONDS    longest wait for calls in flight (default: 60)
#   --self-signed      first make a certificate for this machine, in FOLDER/tls, if there is none:
#                      for trying things out
#   --make-certificate make it as --self-signed does, and end; every user of this machine can read the
#                      key, so that a container can
#   --check            ask the Envoy that runs here whether it is ready, and end with 0 or 1
#
# ENVOY names another program than the "envoy" in PATH.
set -euo pipefail

# The address of admin in envoy.yaml.
admin_port=''

# admin METHOD PATH: prints the answer.
admin() {
  exec 3<>"/dev/tcp/127.0.0.1/${admin_port}"
  printf '%s %s HTTP/1.1\r\nHost: admin\r\nConnection: close\r\nContent-Length: 0\r\n\r\n' \
    "$1" "$2" >&3
  cat <&3
  exec 3<&-
}

# Not while it starts or drains. The listener's GET /ready answers the same, by TLS.
is_ready() {
  [[ "$(admin GET /ready | head -n 1)" == *' 200 '* ]]
}

calls_in_flight() {
  admin GET '/stats?filter=^http\.edge\.downstream_rq_active$' |
    sed -n 's/^http\.edge\.downstream_rq_active: \([0-9]*\).*/\1/p'
}

end() {
  trap '' TERM INT
  local deadline=$((SECONDS + drain))
  # GET /ready answers 503, connections are told to end, and new ones are refused.
  if admin POST /healthcheck/fail >/dev/null && admin POST '/drain_listeners?graceful' >/dev/null; then
    sleep 1
    while ((SECONDS < deadline)) && [[ "$(calls_in_flight)" != 0 ]]; do sleep 0.2; done
  fi
  kill -TERM "${envoy}" 2>/dev/null || true
}

# servers_are FILE: prints what comes on top of envoy.yaml.
servers_are() {
  printf '{dynamic_resources: {cds_config: {path_config_source: {path: "./%s"}}}}' "$1"
}

make_certificate() {
  mkdir -p tls
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 \
    -subj "/CN=$(hostname)" -addext "subjectAltName=DNS:localhost,DNS:$(hostname),IP:127.0.0.1" \
    -keyout tls/tls.key -out tls/tls.crt 2>/dev/null
}

main() {
  local folder servers=servers.yaml self_signed=0 only_certificate=0 check=0 status=0
  folder="$(dirname "${BASH_SOURCE[0]}")"
  drain=60
  while (($# > 0)); do
    case "$1" in
      --folder) folder="${2:?--folder needs a folder}"; shift ;;
      --servers) servers="${2:?--servers needs a file}"; shift ;;
      --drain) drain="${2:?--drain needs a number of seconds}"; shift ;;
      --self-signed) self_signed=1 ;;
      --make-certificate) only_certificate=1 ;;
      --check) check=1 ;;
      --) shift; break ;;
      -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
      *) echo "unknown argument: $1 (see --help)" >&2; exit 2 ;;
    esac
    shift
  done
  cd "${folder}"
  admin_port="$(sed -n '/^admin:/,/^[a-z]/s/.*port_value: \([0-9]*\).*/\1/p' envoy.yaml)"
  if ((check)); then is_ready; exit; fi
  if ((only_certificate)); then
    if [[ ! -f tls/tls.key ]]; then make_certificate; fi
    chmod a+r tls/tls.key
    exit
  fi
  if [[ ! -f "${servers}" ]]; then
    echo "--servers: there is no ${folder}/${servers}" >&2
    exit 2
  fi
  if ((self_signed)) && [[ ! -f tls/tls.key ]]; then make_certificate; fi
  trap end TERM INT
  # In a session of its own: Ctrl-C is for this script.
  setsid "${ENVOY:-envoy}" --config-path envoy.yaml --config-yaml "$(servers_are "${servers}")" \
    --drain-time-s 5 --disable-hot-restart "$@" &
  envoy=$!
  # A signal ends the first wait, Envoy's end the second.
  wait "${envoy}" || status=$?
  if kill -0 "${envoy}" 2>/dev/null; then
    status=0
    wait "${envoy}" || status=$?
  fi
  return "${status}"
}

main "$@"
