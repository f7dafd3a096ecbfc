#!/usr/bin/env bash
# Builds Chorale on Debian 12 or Ubuntu 24.04, starts a server on this machine, registers an example
# table and draws joint samples. Installs missing packages.
#
# Usage: deploy/quickstart.sh [--stop] [--no-install]
#
#   --stop          stop the server of an earlier run
#   --no-install    do not install missing packages: the build fails if a package is missing
#
# The server accepts calls only from this machine, and keeps running when the script ends. A later
# run uses the running server, or restarts it if the program or the model has changed. All files of
# the server are in build/quickstart; delete this folder to start over.
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
# The time of a first build without the GPU backend on one core.
readonly BUILD_CORE_MINUTES=16

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }

# Prints a command as a user would type it, then runs it.
show() {
  say "\$ $*"
  "$@"
}

# Without a GPU, the server must not load the GPU backend: an earlier build may have left an
# outdated backend.
has_gpu() { [[ -e /dev/nvidiactl ]]; }

# ---- Building -------------------------------------------------------------------------------

# Reads ninja's output and shows the progress: on a line of the terminal, otherwise twice a minute.
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
  # The configuration of an existing build folder, such as that of the tests, is kept.
  if [[ ! -f build/release/build.ninja ]]; then
    cmake --preset release-without-tests >"${log}" 2>&1 || { cat "${log}"; exit 1; }
  fi
  if [[ ! -x "${SERVER}" ]]; then
    cores="$(nproc)"
    say "The first build takes about $(((BUILD_CORE_MINUTES + cores - 1) / cores)) minutes on" \
      "${cores} cores."
  fi
  local targets=(chorale-server chorale)
  # Build the GPU backend if there are a GPU and a CUDA compiler.
  if has_gpu && ninja -C build/release -t query chorale_cuda >/dev/null 2>&1; then
    targets+=(chorale_cuda)
  fi
  if ! ninja -C build/release "${targets[@]}" 2>&1 | tee -a "${log}" | show_progress; then
    grep -v '^\[' "${log}" | tail -n 40
    say "The build failed; see the log ${log}." >&2
    exit 1
  fi
}

# ---- The server -----------------------------------------------------------------------------

# Prints the process ID of the running server of an earlier run; fails if there is none.
running_server() {
  local pid
  pid="$(cat "${PID_FILE}" 2>/dev/null)" || return 1
  [[ "$(readlink "/proc/${pid}/exe" 2>/dev/null)" == "${PWD}/${SERVER}"* ]] && echo "${pid}"
}

# Whether the program or the model of the server with process ID $1 was replaced after its start.
is_outdated() {
  [[ "$(readlink "/proc/$1/exe")" == *" (deleted)" ||
    "${MODEL}/config.json" -nt "${PID_FILE}" || "${MODEL}/model.safetensors" -nt "${PID_FILE}" ]]
}

stop_server() {
  local pid
  if ! pid="$(running_server)"; then
    say "The server is not running."
    return
  fi
  kill -TERM "${pid}"
  for _ in {1..400}; do
    if [[ ! -d "/proc/${pid}" ]]; then
      rm -f "${PID_FILE}" "${PORT_FILE}"
      say "The server has stopped. Its contexts are kept in ${STATE}/data."
      return
    fi
    sleep 0.1
  done
  say "The server (process ${pid}) did not stop; see ${LOG}." >&2
  return 1
}

# Prints port $1 if it is free; otherwise 0, with which the server chooses a free port.
port_or_any() {
  if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then echo 0; else echo "$1"; fi
}

# try_to_start PORT METRICS_PORT: starts a server on these ports; fails if it does not start.
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
  # Another program may have opened a port since the check.
  if ! running_server >/dev/null && try_to_start 0 0; then return; fi
  say "The server did not start. The end of its log:" >&2
  tail -n 20 "${LOG}" >&2
  return 1
}

# ---- Main -----------------------------------------------------------------------------------

example() {
  step "Registering datasets/penguins.csv: 318 penguins; the target is the body mass"
  local register=("${CLIENT}" register datasets/penguins.csv --target body_mass_g --name "${CONTEXT}")
  if ! show "${register[@]}"; then
    say "The context exists with different content, for example for another model. Replacing it."
    show "${CLIENT}" rm "${CONTEXT}"
    show "${register[@]}"
  fi

  step "Drawing 1000 joint sample paths of the body mass of 24 other penguins"
  show "${CLIENT}" sample "${CONTEXT}" datasets/penguins_heldout.csv \
    --paths 1000 --seed 1 --summary --format table
  say
  say "The first lines of the paths:"
  local paths="${STATE}/paths.csv"
  show "${CLIENT}" sample "${CONTEXT}" datasets/penguins_heldout.csv \
    --paths 1000 --seed 1 --quiet --output "${paths}"
  head -n 6 "${paths}"
  say "... $(wc -l <"${paths}") lines in ${paths}"
}

next_steps() {
  cat <<END

== Interpretation
The model was trained on synthetic tables only: all it knows about penguins comes from the 318
registered rows. The 24 query rows are other penguins, whose observed body mass was not sent to the
server. For each row, 90 % of the sampled values are between q0.05 and q0.95. If the number of
observed values in these intervals is in the expected range, the intervals are consistent with the
observations. If the intervals are much narrower than the spread of the observed values, the
features contain much information about the target.
A path has a value for each row, and these values are drawn jointly. To get the distribution of a
quantity over several rows, such as "sum" to "min" above, compute it on each path.

The server runs at ${CHORALE_SERVER} (process $(cat "${PID_FILE}")). Next, try in this folder:

  export CHORALE_SERVER=${CHORALE_SERVER}
  ${CLIENT} show ${CONTEXT}
  ${CLIENT} predict ${CONTEXT} datasets/penguins_heldout.csv --quantiles 0.05,0.5,0.95
  ${CLIENT} log-density ${CONTEXT} datasets/penguins_heldout.csv --orders 8
  ${CLIENT} --help

  deploy/quickstart.sh --stop    stops the server; its contexts are kept
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
    step "Installing missing packages"
    deploy/install_packages.sh build
  fi
  step "Building the server and the client"
  build
  mkdir -p "${STATE}"
  step "Starting the server"
  local pid
  if pid="$(running_server)" && is_outdated "${pid}"; then
    say "The program or the model has changed: stopping the running server first."
    stop_server
  fi
  if running_server >/dev/null && [[ -s "${PORT_FILE}" ]]; then
    say "The server is already running."
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
