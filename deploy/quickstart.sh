#!/usr/bin/env bash
# From a fresh Debian 12 or Ubuntu 24.04 to joint samples: installs what is missing, builds, starts
# a server on this machine, registers an example table and samples from it.
#
# Usage: deploy/quickstart.sh [--stop] [--no-install]
#
#   --stop          stop the server that an earlier run left running
#   --no-install    fail instead of installing missing packages
#
# The server keeps running after the script has ended, and a later run uses it again, or starts the
# one that has been built since. It takes calls from this machine only. What it writes lies in
# build/quickstart: delete that to start afresh.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

readonly STATE=build/quickstart
readonly PID_FILE="${STATE}/server.pid"
readonly PORT_FILE="${STATE}/port"
readonly LOG="${STATE}/server.log"
readonly SERVER=build/release/server/chorale-server
readonly CLIENT=build/release/client/cli/chorale
readonly MODEL=models/default
readonly CONTEXT=penguins
# How long a first build without the GPU backend keeps one core busy.
readonly BUILD_CORE_MINUTES=16

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }

# Prints a command as a user would type it, then runs it.
show() {
  say "\$ $*"
  "$@"
}

# Where there is none, the server is not to look for the GPU backend: an earlier build may have left
# one that no longer fits.
has_gpu() { [[ -e /dev/nvidiactl ]]; }

# ---- Building -------------------------------------------------------------------------------

# Reads ninja's output and shows how far it is: on one line of a terminal, else twice a minute.
show_progress() {
  local line next=$((SECONDS + 30))
  while IFS= read -r line; do
    if [[ "${line}" != \[* ]]; then continue; fi
    if [[ -t 1 ]]; then
      printf '\r\033[K%s' "${line:0:$((${COLUMNS:-80} - 1))}"
    elif ((SECONDS >= next)); then
      say "${line%% *} built"
      next=$((SECONDS + 30))
    fi
  done
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
}

build() {
  local log=build/logs/quickstart.log cores
  mkdir -p build/logs
  # A build folder that the tests have configured is used as it is.
  if [[ ! -f build/release/build.ninja ]]; then
    cmake --preset release-without-tests >"${log}" 2>&1 || { cat "${log}"; exit 1; }
  fi
  if [[ ! -x "${SERVER}" ]]; then
    cores="$(nproc)"
    say "The first build takes about $(((BUILD_CORE_MINUTES + cores - 1) / cores)) minutes on" \
      "${cores} cores."
  fi
  local targets=(chorale-server chorale)
  # The GPU backend, where there are a GPU and a compiler for it.
  if has_gpu && ninja -C build/release -t query chorale_cuda >/dev/null 2>&1; then
    targets+=(chorale_cuda)
  fi
  if ! ninja -C build/release "${targets[@]}" 2>&1 | tee -a "${log}" | show_progress; then
    grep -v '^\[' "${log}" | tail -n 40
    say "The build failed; the whole log is in ${log}." >&2
    exit 1
  fi
}

# ---- The server -----------------------------------------------------------------------------

# Prints the process of a server that an earlier run has started and that still runs.
running_server() {
  local pid
  pid="$(cat "${PID_FILE}" 2>/dev/null)" || return 1
  [[ "$(readlink "/proc/${pid}/exe" 2>/dev/null)" == "${PWD}/${SERVER}"* ]] && echo "${pid}"
}

# Whether process $1 runs a server, or serves a model, that has been replaced since.
is_outdated() {
  [[ "$(readlink "/proc/$1/exe")" == *" (deleted)" ||
    "${MODEL}/config.json" -nt "${PID_FILE}" || "${MODEL}/model.safetensors" -nt "${PID_FILE}" ]]
}

stop_server() {
  local pid
  if ! pid="$(running_server)"; then
    say "No server of this script is running."
    return
  fi
  kill -TERM "${pid}"
  for _ in {1..400}; do
    if [[ ! -d "/proc/${pid}" ]]; then
      rm -f "${PID_FILE}" "${PORT_FILE}"
      say "The server is stopped. Its contexts are kept in ${STATE}/data."
      return
    fi
    sleep 0.1
  done
  say "Process ${pid} does not end; see ${LOG}." >&2
  return 1
}

# Prints port $1, or 0, which means any free one, when something answers there already.
port_or_any() {
  if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then echo 0; else echo "$1"; fi
}

# try_to_start PORT METRICS_PORT: whether a server on these ports has come up.
try_to_start() {
  local backend=cpu
  if has_gpu; then backend=auto; fi
  rm -f "${PORT_FILE}"
  nohup "${SERVER}" --models="${MODEL}" --data_dir="${STATE}/data" \
    --listen_address="127.0.0.1:$1" --metrics_address="127.0.0.1:$2" \
    --backend="${backend}" --port_file="${PORT_FILE}" --lame_duck=0s >>"${LOG}" 2>&1 </dev/null &
  local pid=$!
  echo "${pid}" >"${PID_FILE}"
  for _ in {1..600}; do
    if [[ -s "${PORT_FILE}" ]]; then return; fi
    if ! kill -0 "${pid}" 2>/dev/null; then return 1; fi
    sleep 0.1
  done
  return 1
}

start_server() {
  if try_to_start "$(port_or_any 50051)" "$(port_or_any 9464)"; then return; fi
  # Another program may have taken a port that was free a moment ago.
  if ! running_server >/dev/null && try_to_start 0 0; then return; fi
  say "The server did not start:" >&2
  tail -n 20 "${LOG}" >&2
  return 1
}

# ---- Main -----------------------------------------------------------------------------------

example() {
  step "Registering datasets/penguins.csv: 318 penguins, body mass as the target"
  local register=("${CLIENT}" register datasets/penguins.csv --target body_mass_g --name "${CONTEXT}")
  if ! show "${register[@]}"; then
    say "An earlier run has registered it for another model: that is replaced."
    show "${CLIENT}" rm "${CONTEXT}"
    show "${register[@]}"
  fi

  step "1000 joint sample paths of the body mass of 24 other penguins"
  show "${CLIENT}" sample "${CONTEXT}" datasets/penguins_heldout.csv \
    --paths 1000 --seed 1 --summary --format table
  say
  say "The first lines of the paths themselves:"
  local paths="${STATE}/paths.csv"
  show "${CLIENT}" sample "${CONTEXT}" datasets/penguins_heldout.csv \
    --paths 1000 --seed 1 --quiet --output "${paths}"
  head -n 6 "${paths}"
  say "... $(wc -l <"${paths}") lines in ${paths}"
}

next_steps() {
  cat <<END

== What this says
The model was trained on synthetic tables only: what it knows of penguins are the 318 registered
ones. The 24 rows are others, and their known body mass was not sent to it. For each of them it puts
90 % of its values between q0.05 and q0.95. When about as many known values lie inside as are
expected, nothing here speaks against such intervals; when they are much narrower than the values' own spread,
the columns tell a lot about the target.
A path has a value for every row, drawn together. So whatever you want to know about several rows at
once, like "sum" to "min" above, take it from each path and look at how it varies.

The server runs at ${CHORALE_SERVER} (process $(cat "${PID_FILE}")). Try next, from this folder:

  export CHORALE_SERVER=${CHORALE_SERVER}
  ${CLIENT} show ${CONTEXT}
  ${CLIENT} predict ${CONTEXT} datasets/penguins_heldout.csv --quantiles 0.05,0.5,0.95
  ${CLIENT} log-density ${CONTEXT} datasets/penguins_heldout.csv --orders 8
  ${CLIENT} --help

  deploy/quickstart.sh --stop    stops the server; what was registered is kept
  tests/run.sh --quick           builds and runs the tests
END
}

main() {
  local install=1
  while (($# > 0)); do
    case "$1" in
      --stop) stop_server; exit ;;
      --no-install) install=0 ;;
      -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
      *) say "unknown argument: $1 (see --help)" >&2; exit 2 ;;
    esac
    shift
  done

  if ((install)); then
    step "Installing what is missing"
    deploy/install_packages.sh build
  fi
  step "Building server and client"
  build
  mkdir -p "${STATE}"
  step "Starting the server"
  local pid
  if pid="$(running_server)" && is_outdated "${pid}"; then
    say "The one that runs is older than its program or its model: it ends first."
    stop_server
  fi
  if running_server >/dev/null && [[ -s "${PORT_FILE}" ]]; then
    say "It runs already."
  else
    start_server
  fi
  CHORALE_SERVER="127.0.0.1:$(cat "${PORT_FILE}")"
  export CHORALE_SERVER
  say "Listening on ${CHORALE_SERVER}"
  example
  next_steps
}

main "$@"
