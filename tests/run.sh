#!/usr/bin/env bash
# Builds and runs the tests, and ends with one line: "N passed, M failed, K skipped".
#
# Usage: tests/run.sh [--full] [--quick] [--stage NAME]... [--filter REGEX] [--no-install]
#
#   --full           every test in every build: before a release, and before a capability is called
#                    done. Without: what every change has to pass, in 20 minutes at most on two cores
#                    with nothing installed and nothing compiled
#   --quick          only the stage "release"
#   --stage NAME     only this stage; may be repeated
#   --filter REGEX   only test programs whose name matches; no others are built
#   --no-install     fail instead of installing missing packages
#
# Stages, in this order, and what the full length does besides:
#   style       clang-format, include edges, shellcheck, the tests of the scripts
#   quickstart  the quick start of README.md in this folder, before the tests are built and after
#   copies      (--full only) quick start and tests on clean copies, in both orders
#   release     g++, optimised: what computes (kernels, their emulator, backends) and the whole system;
#               where there is no GPU, with code for one of them. Full: all tests, all programs, code
#               for all GPUs
#   bundle      the archive of the release: made, unpacked and run; uses the build of release
#   deploy      what lies in deploy/, without running it: Kubernetes manifests against their schemas and
#               the sources, configuration files, Envoy's configuration, alerts, dashboards and
#               runbook; uses the build of release, and an environment of its own (build/deploy_python)
#   python      buf's rules of the API; the Python client: ruff, mypy, its tests by a fake server and by
#               that of the build of release, and how many of its lines they run; environments of its
#               own (build/client_python, build/stubs_python). Full: the wheel; stubs for Go and Java
#   wheels      (--full only) the Python packages, made twice, installed and used without a compiler; an
#               environment of its own (build/wheels_python)
#   image       (--full only) the container images, built and run. Needs root
#   packages    (--full only) the Debian packages, through their life. Needs root
#   envoy       (--full only) servers behind Envoy: restarts, floods, calls of a browser, JSON
#   monitoring  (--full only) Prometheus and Alertmanager beside servers under load, and drills
#   docs        (--full only) the documentation's site, and the bill of materials
#   resilience  (--full only) tests/resilience, in the short form; an environment of its own
#   models      the tests of the Python code in models/ and of the benchmarks' baselines, in an
#               environment of their own (build/python, 2 GB; PYTHON_FOR_MODELS names an interpreter
#               to use instead), if anything that they read has changed since they last passed
#               (tests/models/passed). Full, or when named by --stage: always. Skipped where no
#               environment is to be had
#   asan        clang, address and undefined-behaviour sanitizers, warnings are errors: the tests of
#               the units, of requests and of durability. Full: all tests
#   fuzz        libFuzzer, 3 s each; uses the build of asan. Full: 60 s. FUZZ_SECONDS says otherwise
#   tsan        clang, thread sanitizer: what has threads of its own. Full: all tests of the engine, and
#               of the server without gRPC
#   tidy        clang-tidy, warnings are errors, on what the asan build compiles as one; uses that build.
#               Full: all checks, and every file compiled separately
#
# Which builds run a test in the short length stands where the test is declared (SHORT_IN, see
# cmake/Chorale.cmake). Some tests look at more cases in the full length (tests/support/length.h).
#
# Everything that is written lies in build/, but for the compiler's and clang-tidy's caches. JOBS sets
# how many things run at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ROOT="${PWD}"
readonly LOGS="${ROOT}/build/logs"
readonly SHORT_STAGES=(style quickstart release quickstart bundle deploy python models asan fuzz tsan tidy)
readonly FULL_STAGES=(style quickstart release quickstart copies bundle deploy python wheels image packages
  envoy monitoring docs resilience models asan fuzz tsan tidy)
readonly MODELS_REQUIREMENTS=tests/models/requirements.txt
readonly MODELS_PASSED=tests/models/passed
readonly TIDY_CACHE="${XDG_CACHE_HOME:-${HOME}/.cache}/chorale/clang_tidy"
JOBS="${JOBS:-$(nproc)}"
full=0
chosen=0  # whether the command line names stages
install=1
passed=0
failed=0
skipped=0
filter=''

say() { printf '%s\n' "$*"; }

# ---- Counting -------------------------------------------------------------------------------

pass() { passed=$((passed + 1)); say "  ok    $1"; }
fail() { failed=$((failed + 1)); say "  FAIL  $1"; }
skip() { skipped=$((skipped + 1)); say "  skip  $1: $2"; }

# check NAME COMMAND...: one test case. Its output is shown when it fails.
check() {
  local name="$1" log
  shift
  log="${LOGS}/${name//[^a-zA-Z0-9]/_}.log"
  if "$@" >"${log}" 2>&1; then
    pass "${name}"
  else
    fail "${name}"
    tail -n 150 "${log}"
  fi
}

# ---- Building and running -------------------------------------------------------------------

# Prints the targets of the tests of build/$1 whose names match the filter.
filtered_targets() {
  local name program
  grep -rh '^add_test(' "build/$1/tests" --include=CTestTestfile.cmake |
    sed -E 's/^add_test\(\[=\[(.*)\]=\] "([^"]*)".*/\1 \2/' |
    while read -r name program; do
      if [[ "${name}" =~ ${filter} ]]; then echo "${program#"${ROOT}/build/$1/"}"; fi
    done | sort -u
}

# build PRESET TARGET...: configures and builds; counts only a failure. With "tests:TARGET" it is, in
# the full length, TARGET, in the short one what the short length runs and, when there is a filter,
# only the tests that match it.
build() {
  local preset="$1" log="${LOGS}/build_$1.log" target targets=() started="${SECONDS}"
  shift
  if ! cmake --preset "${preset}" >"${log}" 2>&1; then
    fail "configure ${preset}"
    tail -n 100 "${log}"
    return 1
  fi
  for target in "$@"; do
    if [[ "${target}" != tests:* ]]; then
      targets+=("${target}")
    elif [[ -n "${filter}" ]]; then
      mapfile -t -O "${#targets[@]}" targets < <(filtered_targets "${preset}")
    elif ((full)); then
      targets+=("${target#tests:}")
    else
      targets+=(short_tests)
    fi
  done
  if ((${#targets[@]} == 0)); then return 0; fi
  if ninja -C "build/${preset}" -j "${JOBS}" "${targets[@]}" >>"${log}" 2>&1; then
    say "  built ${preset}: $(grep -c '^\[' "${log}" || true) steps, $((SECONDS - started)) s"
  else
    fail "build ${preset}"
    grep -v '^\[' "${log}" | tail -n 100
    return 1
  fi
}

# Some kernels place memory where the sanitizers of older compilers do not expect it.
fixed_layout() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

# run_tests PRESET FOLDER TIMEOUT [NAME]: runs the test programs of one folder of the build, or the
# one of that name, and counts their cases. More at once than there are processors: most of them wait
# now and then, for a timer, a disk or another process.
run_tests() {
  local folder="build/$1/$2" timeout="$3" only="${4:-}"
  local reports="${ROOT}/build/$1/reports"
  local selection=()
  if [[ -n "${only}" ]]; then
    if [[ ! "${only}" =~ ${filter} ]]; then return; fi
    selection=(-R "^${only}\$")
  elif [[ -n "${filter}" ]]; then
    selection=(-R "${filter}")
  elif ((!full)); then
    selection=(-L '^short$')
  fi
  rm -rf "${reports}"
  mkdir -p "${reports}"
  GTEST_COLOR=no fixed_layout \
    ctest --test-dir "${folder}" -j "$((2 * JOBS))" --timeout "${timeout}" --output-on-failure \
    --output-junit "${reports}/ctest.xml" "${selection[@]}" |
    grep -v -E '^ +Start +[0-9]+:|^Test project|^Internal ctest|^$' || true
  local counts
  if [[ ! -f "${reports}/ctest.xml" ]] ||
    ! counts="$(python3 tests/ctest_cases.py "${reports}/ctest.xml" "${reports}")"; then
    fail "tests of ${folder}: no report"
    return
  fi
  sed '$d' <<<"${counts}"
  local p f s
  read -r p f s <<<"$(tail -n 1 <<<"${counts}")"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  say "  $1/$2: ${p} passed, ${f} failed, ${s} skipped"
}

# ---- Stages ---------------------------------------------------------------------------------

# own_files PATTERN...: the project's files, also where there is no git.
own_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | while read -r path; do
      if [[ -f "${path}" ]]; then echo "${path}"; fi  # not those deleted but not yet committed
    done
  else
    local pattern
    for pattern in "$@"; do
      find . -path ./build -prune -o -type f -path "./*${pattern}" -print
    done
  fi
}

# The formatting is that of one version: others differ in details.
stage_style() {
  if command -v clang-format-14 >/dev/null; then
    local sources
    mapfile -t sources < <(own_files '*.h' '*.cc' '*.cu' '*.cuh')
    check clang-format clang-format-14 --dry-run -Werror "${sources[@]}"
  else
    skip clang-format 'needs version 14'
  fi
  check 'include edges' python3 tests/layering/check_includes.py
  check 'words' python3 tests/style/check_words.py
  check 'lengths' python3 tests/style/check_lengths.py
  local script
  for script in $(own_files 'tests/*_test.py' | grep -v -e tests/models/ -e tests/deploy/ -e tests/client/ -e tests/proto/ -e /baselines/); do
    check "${script}" env PYTHONDONTWRITEBYTECODE=1 python3 "${script}"
  done
  local scripts
  mapfile -t scripts < <(own_files '*.sh' .ci/run)
  check shellcheck shellcheck "${scripts[@]}"
}

# Runs twice: in a folder where nothing was built, the tests find what the quick start has built, and
# the other way round.
stage_quickstart() {
  check 'quick start' tests/quickstart/quick_start_test.sh
}

stage_copies() {
  check 'first screen of README.md' tests/quickstart/first_screen_test.sh build/first_screen
}

stage_release() {
  local programs=()
  if ((full)); then programs=(gpu_programs); fi
  build release tests:all "${programs[@]}" || return 0
  run_tests release tests "$((full ? 1200 : 600))"  # a thousand tables in a small container
}

stage_bundle() {
  build release bundle || return 0
  check 'release bundle' tests/bundle/bundle_test.sh build/release/bundle/chorale-*.tar.gz
  tail -n 1 "${LOGS}/release_bundle.log"
}

# make_python FOLDER REQUIREMENTS [PIP_OPTION...]: an environment with these packages.
make_python() {
  local folder="$1" requirements="$2"
  shift 2
  rm -rf "${folder}"
  python3 -m venv "${folder}" &&
    timeout 900 "${folder}/bin/pip" --disable-pip-version-check --no-input --timeout 30 --retries 2 \
      install --quiet --only-binary :all: "$@" --requirement "${requirements}" &&
    cp "${requirements}" "${folder}/requirements.txt"  # last: an environment without is not whole
}

# python_of FOLDER REQUIREMENTS [PIP_OPTION...]: prints the interpreter of an environment with these
# packages, which is made if there is none. Else prints why there is none, with status 1, or, with
# status 2, the log of how it failed.
python_of() {
  local folder="$1" log="${LOGS}/${1//\//_}.log"
  if ! cmp -s "$2" "${folder}/requirements.txt"; then
    if ((!install)); then
      echo "no environment in ${folder}"
      return 1
    fi
    if ! make_python "$@" >"${log}" 2>&1; then
      if grep -q -E 'NewConnectionError|NameResolutionError|Timeout|ProxyError' "${log}"; then
        echo 'the package index cannot be reached'
        return 1
      fi
      echo "${log}"
      return 2
    fi
  fi
  echo "${folder}/bin/python"
}

# Prints the interpreter for the tests of models/, or why there is none.
models_python() {
  if [[ -n "${PYTHON_FOR_MODELS:-}" ]]; then
    echo "${PYTHON_FOR_MODELS}"
  else
    python_of build/python "${MODELS_REQUIREMENTS}" --no-deps
  fi
}

# run_models_test PYTHON SCRIPT REPORT: leaves REPORT.log, and REPORT.ok when the script has passed.
run_models_test() {
  if OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. timeout 600 \
    "$1" "$2" >"$3.log" 2>&1; then
    touch "$3.ok"
  fi
}

# Prints the digest of all that the tests of models/ read.
models_digest() {
  own_files 'models/*' 'tests/models/*' 'tests/bench/baselines/*' 'tests/golden/*' |
    grep -v -x -F "${MODELS_PASSED}" | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum |
    cut -d ' ' -f 1
}

# A test that skips itself lacks a package, which is a failure where the environment is there.
stage_models() {
  local digest failed_before="${failed}"
  digest="$(models_digest)"
  if ((!full && !chosen)) && [[ "$(cat "${MODELS_PASSED}" 2>/dev/null)" == "${digest}" ]]; then
    say '  nothing that they read has changed since they last passed'
    return 0
  fi
  local scripts script python report work="${ROOT}/build/reports/models"
  mapfile -t scripts < <(own_files 'tests/models/*_test.py' 'tests/bench/baselines/*_test.py' |
    grep -E -- "${filter}")
  local status=0
  python="$(models_python)" || status=$?
  if ((status == 1)); then
    for script in "${scripts[@]}"; do skip "${script}" "${python}"; done
    return 0
  elif ((status == 2)); then
    fail 'the environment of the Python tests cannot be made'
    tail -n 50 "${python}"
    return 0
  fi
  rm -rf "${work}"
  mkdir -p "${work}"
  for script in "${scripts[@]}"; do
    while (($(jobs -rp | wc -l) >= JOBS)); do sleep 0.2; done
    run_models_test "${python}" "${script}" "${work}/${script//\//_}" &
  done
  wait
  for script in "${scripts[@]}"; do
    report="${work}/${script//\//_}"
    if [[ -f "${report}.ok" ]] && ! grep -q -i '^skipped\|(skipped=' "${report}.log"; then
      pass "${script}: $(sed -n 's/^Ran \([0-9]* tests\?\) in .*/\1/p' "${report}.log")"
    else
      fail "${script}"
      tail -n 100 "${report}.log"
    fi
  done
  if ((full && failed == failed_before)) && [[ -z "${filter}" ]]; then
    echo "${digest}" >"${MODELS_PASSED}"
  fi
}

# environment NAME REQUIREMENTS: sets `python` to the interpreter of build/NAME. Else counts what NAME
# stands for as skipped or failed.
environment() {
  local status=0
  python="$(python_of "build/$1" "$2")" || status=$?
  if ((status == 1)); then
    skip "$1" "${python}"
  elif ((status == 2)); then
    fail "$1: the environment cannot be made"
    tail -n 50 "${python}"
  fi
  return "${status}"
}

# A kustomize that knows components: kubectl has one since it says which, in version 1.24.
get_kustomize() {
  command -v kustomize ||
    kubectl version --client --output=json | grep kustomizeVersion ||
    [[ -x build/deploy/kustomize ]] ||
    tests/deploy/fetch_kustomize.sh build/deploy
}

# get_programs: what the tests of deploy/ run and neither pip nor apt installs.
get_programs() {
  if ((!install)); then return; fi
  get_kustomize >"${LOGS}/kustomize.log" 2>&1 || true
  if [[ ! -x build/monitoring/promtool ]]; then
    tests/deploy/fetch_prometheus.sh build/monitoring >"${LOGS}/prometheus.log" 2>&1 || true
  fi
}

# test_deploy NAME SECONDS SCRIPT [ARGUMENT...]: runs a Python test of deploy/ with ${python};
# shows its figures, which begin with two spaces, and why it has skipped what.
test_deploy() {
  local name="$1" seconds="$2" log reason
  log="${LOGS}/$(basename "$3" .py).log"
  shift 2
  if PYTHONDONTWRITEBYTECODE=1 timeout "${seconds}" "${python}" "$@" >"${log}" 2>&1; then
    pass "${name}: $(sed -n 's/^Ran \([0-9]* tests\?\) in .*/\1/p' "${log}")"
    grep -e '^  [^ ]' -e ' s$' -e ' MB' "${log}" || true
    while read -r reason; do
      skip "${name}" "${reason}"
    done < <(sed -n "s/.* skipped ['\"]\(.*\)['\"]\$/\1/p" "${log}" | sort -u)
  else
    fail "${name}"
    tail -n 150 "${log}"
  fi
}

# prepare_deploy: what stage_deploy needs comes over the network, while the processors compile.
# stage_deploy itself makes what has failed here, and says why it fails.
prepare_deploy() {
  python_of build/deploy_python tests/deploy/requirements.txt && get_programs
}

stage_deploy() {
  local python
  wait
  build release chorale-server || return 0
  environment deploy_python tests/deploy/requirements.txt || return 0
  get_programs
  test_deploy 'Kubernetes manifests' 600 tests/deploy/kubernetes_test.py --verbose
  test_deploy 'configuration files' 300 tests/deploy/configuration_test.py --verbose
  test_deploy 'descriptor set of the API' 100 tests/deploy/descriptors_test.py --verbose
  test_deploy 'compose file' 100 tests/deploy/compose_test.py --verbose
  test_deploy 'alerts, dashboards and runbook' 600 tests/deploy/observability_test.py --verbose
}

# prepare_python: the environments of stage_python come over the network, while the processors compile.
prepare_python() {
  python_of build/client_python tests/client/python/requirements.txt &&
    python_of build/stubs_python tests/client/python/stubs_requirements.txt
}

# finished PROCESS LOG: waits for what runs beside; shows its log if it has failed.
finished() {
  wait "$1" || { cat "$2" && false; }
}

# The tests of the Python client, of which coverage.py counts the lines that they run.
python_tests() {
  COVERAGE_FILE="${ROOT}/build/python_coverage" CHORALE_TEST_SERVER="${CHORALE_TEST_SERVER:-${ROOT}/build/release/server/chorale-server}" \
    timeout "$((full ? 600 : 300))" "${python}" -m pytest -q --rootdir . -c client/python/pyproject.toml \
    --cov --cov-config client/python/pyproject.toml --durations 5 tests/client/python
}

stage_python() {
  local python stubs types
  wait
  build release chorale-server || return 0
  environment stubs_python tests/client/python/stubs_requirements.txt || return 0
  stubs="${python}"
  environment client_python tests/client/python/requirements.txt || return 0
  local -x PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="${ROOT}/client/python/src" MPLBACKEND=agg
  local -x MYPYPATH="${ROOT}/client/python/src:${ROOT}/tests/client/python"
  check 'rules of the API' "${stubs}" tests/proto/api_test.py
  check 'messages of the Python client' "${stubs}" client/python/make_stubs.py
  "${python}" -m mypy --config-file client/python/pyproject.toml --cache-dir build/mypy_cache \
    client/python/src/chorale_client tests/client/python >"${LOGS}/mypy.log" 2>&1 &
  types="$!"
  check 'rules of the Python client' "${python}" -m ruff check --no-cache \
    --config client/python/pyproject.toml client/python client/python_server tests/client
  check 'form of the Python client' "${python}" -m ruff format --no-cache --check \
    --config client/python/pyproject.toml client/python client/python_server tests/client
  check 'tests of the Python client' python_tests
  grep -E -e '^TOTAL' -e '^[0-9]+ passed' "${LOGS}/tests_of_the_Python_client.log" || true
  check 'types of the Python client' finished "${types}" "${LOGS}/mypy.log"
  if ((full)); then
    check 'wheel of the Python client' tests/client/python/wheel_test.sh "${stubs}"
    if ((install)); then deploy/install_packages.sh stubs || say '  no compilers of stubs'; fi
    test_deploy 'stubs for other languages' 900 tests/proto/stubs_test.py --verbose
  fi
}

stage_wheels() {
  local python bundles
  build release bundle || return 0
  environment wheels_python client/python_server/requirements.txt || return 0
  bundles=(build/release/bundle/chorale-*/)
  test_deploy 'wheels' 1800 tests/client/python_server/wheels_test.py "${bundles[0]}" --verbose
}

# needs_root NAME
needs_root() {
  if ((EUID == 0)); then return 0; fi
  skip "$1" 'needs root'
  return 1
}

stage_image() {
  local python
  needs_root 'container image' || return 0
  if ((install)); then deploy/install_packages.sh package deploy; fi
  build release bundle || return 0
  environment deploy_python tests/deploy/requirements.txt || return 0
  test_deploy 'container image' 2400 tests/deploy/image_test.py --work build/deploy
}

stage_packages() {
  local python
  needs_root 'Debian packages' || return 0
  if ((install)); then deploy/install_packages.sh package deploy; fi
  build release bundle deb || return 0
  environment deploy_python tests/deploy/requirements.txt || return 0
  test_deploy 'Debian packages' 1200 tests/deploy/deb_test.py build/release/packages \
    --work build/deploy
}

stage_envoy() {
  local python
  if ((install)); then deploy/install_packages.sh browser || say '  no browser'; fi
  build release chorale-server chorale || return 0
  environment deploy_python tests/deploy/requirements.txt || return 0
  test_deploy 'Envoy in front of servers' 600 tests/deploy/edge_test.py
  test_deploy 'JSON through Envoy' 300 tests/deploy/json_test.py
  test_deploy 'JSON, what Envoy itself does' 100 tests/deploy/json_proxy_test.py
  check 'floods behind Envoy' env PYTHONDONTWRITEBYTECODE=1 timeout 300 "${python}" \
    tests/resilience/floods.py --envoy "${python%/*}/envoy" \
    --server_flag=--memory_limit_mib=500 --server_flag=--registration_memory_mib=64 \
    headers_reset continuations half_sent
}

stage_monitoring() {
  local python
  build release chorale-server chorale || return 0
  environment deploy_python tests/deploy/requirements.txt || return 0
  get_programs
  test_deploy 'Prometheus and Alertmanager' 1200 tests/deploy/monitoring_test.py
}

stage_docs() {
  if ((install)); then deploy/install_packages.sh package; fi
  build release chorale-server chorale bundle || return 0
  check 'documentation' deploy/docs/build.sh
  check 'bill of materials' build/docs/python/bin/python tests/deploy/sbom_test.py \
    build/release/bundle
}

# resilience NAME ATTEMPTS SCRIPT [ARGUMENT...]: runs a program of tests/resilience with ${python},
# once more if nothing but a time was wrong (see verdict.py) as long as there are attempts; shows its
# figures.
resilience() {
  local name="$1" attempts="$2" log status
  log="${LOGS}/$(basename "$3" .py).log"
  shift 2
  if [[ ! "${name}" =~ ${filter} ]]; then return; fi
  while true; do
    status=0
    PYTHONDONTWRITEBYTECODE=1 timeout 600 "${python}" "$@" >"${log}" 2>&1 || status=$?
    if ((status == 0)); then break; fi
    attempts=$((attempts - 1))
    if ((attempts == 0 || status != 75)); then
      fail "${name}"
      tail -n 150 "${log}"
      return
    fi
    say "  again ${name}: $(grep FAILED "${log}" | head -n 3 | tr '\n' ' ')"
  done
  pass "${name}"
  sed 's/^/    /' "${log}"
}

stage_resilience() {
  local python limits=(--server_flag=--memory_limit_mib=500 --server_flag=--registration_memory_mib=64)
  build release chorale-server chorale || return 0
  environment resilience_python tests/resilience/requirements.txt || return 0
  resilience 'floods' 1 tests/resilience/floods.py "${limits[@]}"
  resilience 'kill -9' 1 tests/resilience/kill9.py
  resilience 'soak with controls' 1 tests/resilience/soak.py
  # These hold times against bounds: another program may be in the way once, hardly three times.
  resilience 'large requests' 3 tests/resilience/large_requests.py
  resilience 'fair shares' 3 tests/resilience/fairness.py
  resilience 'small calls of a busy client' 3 tests/resilience/fairness.py --same_client
  resilience 'overload' 3 tests/resilience/overload.py
  resilience 'lists and replacements' 3 tests/resilience/lists.py
  resilience 'tenants' 3 tests/resilience/tenants.py
}

stage_asan() {
  build asan tests:all || return 0
  # What is freed stays with the process until the quarantine is full: servers watch their memory.
  ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:quarantine_size_mb=16 \
    UBSAN_OPTIONS=print_stacktrace=1 run_tests asan tests 900
}

# fuzz_one TARGET WORK: leaves TARGET.log, and TARGET.ok when nothing was found.
fuzz_one() {
  local target="$1" work="$2"
  rm -f "${work}/${target}.ok"
  mkdir -p "${work}/corpus/${target}" "${work}/found"
  if fixed_layout "build/asan/tests/fuzz/${target}" \
    -max_total_time="${FUZZ_SECONDS:-$((full ? 60 : 3))}" \
    -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=256 -max_len=16384 -print_final_stats=1 \
    -artifact_prefix="${work}/found/${target}-" \
    "${work}/corpus/${target}" "${work}/seeds/${target}" >"${work}/${target}.log" 2>&1; then
    touch "${work}/${target}.ok"
  fi
}

stage_fuzz() {
  build asan fuzz_targets || return 0
  local work="${ROOT}/build/fuzz" path target
  check 'fuzz seeds' python3 tests/fuzz/make_seeds.py "${work}/seeds"
  local targets=()
  for path in build/asan/tests/fuzz/*_fuzz; do
    target="$(basename "${path}")"
    targets+=("${target}")
    while (($(jobs -rp | wc -l) >= JOBS)); do sleep 0.2; done
    fuzz_one "${target}" "${work}" &
  done
  wait
  for target in "${targets[@]}"; do
    if [[ -f "${work}/${target}.ok" ]]; then
      pass "${target}: $(awk '/number_of_executed_units/ {print $2}' "${work}/${target}.log") runs"
    else
      fail "${target}: see build/fuzz/found"
      grep -v '^#' "${work}/${target}.log" | tail -n 60
    fi
  done
}

# Without the tests that call through gRPC. The distribution builds it without the sanitizer, which
# therefore does not see how gRPC orders what its threads do, and takes every message and every
# object that gRPC hands from one thread to another for a race: hundreds in each program.
stage_tsan() {
  build tsan tests:tests/engine/all tests:executor_test tests:server_parts_test || return 0
  export TSAN_OPTIONS=history_size=4:second_deadlock_stack=1
  run_tests tsan tests/engine 600
  run_tests tsan tests/server 600 executor_test
  if ((full)) || [[ -n "${filter}" ]]; then run_tests tsan tests/server 600 server_parts_test; fi
  unset TSAN_OPTIONS
}

# It checks the sources as the asan build compiles them, several as one, because it would otherwise
# parse the headers of gRPC for each of them. The short length omits slow checks, and the separate
# compilation, which finds includes that a source lacks and its neighbours have.
stage_tidy() {
  local tidy options=()
  if ! tidy="$(command -v clang-tidy-14 || command -v clang-tidy)"; then
    fail 'clang-tidy is not installed'
    return 0
  fi
  if ((full)); then
    build separate chorale-server chorale chorale_backend_cuda chorale_kernels_cuda_host || return 0
    build asan tests:all || return 0
    options=(--all-checks)
  else
    build asan short_tests || return 0
  fi
  check clang-tidy python3 tests/lint/clang_tidy.py --clang-tidy "${tidy}" \
    --build build/asan --cache "${TIDY_CACHE}" --jobs "${JOBS}" "${options[@]}"
  tail -n 1 "${LOGS}/clang_tidy.log"
}

# ---- Main -----------------------------------------------------------------------------------

main() {
  local stages=()
  while (($# > 0)); do
    case "$1" in
      --full) full=1 ;;
      --quick) stages=(release) ;;
      --stage) stages+=("${2:?--stage needs a name}"); shift ;;
      --filter) filter="${2:?--filter needs a regular expression}"; shift ;;
      --no-install) install=0 ;;
      -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
      *) say "unknown argument: $1 (see --help)" >&2; exit 2 ;;
    esac
    shift
  done
  if ((${#stages[@]} > 0)); then
    chosen=1
  else
    if ((full)); then stages=("${FULL_STAGES[@]}"); else stages=("${SHORT_STAGES[@]}"); fi
  fi

  mkdir -p "${LOGS}"
  if ((install)); then deploy/install_packages.sh build package test; fi
  CHORALE_TEST_LENGTH="$( ((full)) && echo full || echo short)"
  export CHORALE_TEST_LENGTH
  # Code for one GPU is enough to see that it compiles, where there is none to run it.
  if ((!full)) && ! nvidia-smi >/dev/null 2>&1; then export CUDAARCHS="${CUDAARCHS:-90a-real}"; fi

  local stage started
  for stage in "${stages[@]}"; do
    if ! declare -F "stage_${stage}" >/dev/null; then
      say "unknown stage: ${stage} (one of: ${FULL_STAGES[*]})" >&2
      exit 2
    fi
  done
  if [[ " ${stages[*]} " == *' deploy '* ]]; then prepare_deploy >/dev/null 2>&1 & fi
  if [[ " ${stages[*]} " == *' python '* ]]; then prepare_python >/dev/null 2>&1 & fi
  for stage in "${stages[@]}"; do
    started="${SECONDS}"
    say "== ${stage}"
    "stage_${stage}"
    say "== ${stage}: $((SECONDS - started)) s"
  done

  local line="${passed} passed, ${failed} failed"
  if ((skipped > 0)); then line+=", ${skipped} skipped"; fi
  say "${line}"
  ((failed == 0 && passed > 0))
}

main "$@"
