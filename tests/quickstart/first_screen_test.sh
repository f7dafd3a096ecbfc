#!/usr/bin/env bash
# Does on clean copies of the sources what the first screen of README.md says: the quick start and
# then the tests, and the other way round. Of the tests it runs one small program.
#
# Usage: tests/quickstart/first_screen_test.sh FOLDER
#
# FOLDER takes the copies; inside this checkout the compiler cache helps. It is deleted at the end
# unless something has failed.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly ROOT="${PWD}"
mkdir -p "$1"
folder="$(cd -P "$1" && pwd)"
readonly folder
copy=''

fail() { echo "FAIL  $*" >&2; exit 1; }

own_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard
  else
    find . -path ./build -prune -o -type f -print
  fi
}

# make_copy NAME: makes a copy of what a fresh clone has, and goes there.
make_copy() {
  copy="${folder}/$1"
  rm -rf "${copy}"
  mkdir -p "${copy}"
  cd "${ROOT}"
  own_files | while IFS= read -r path; do
    if [[ -f "${path}" ]]; then printf '%s\0' "${path}"; fi  # not those deleted, not yet committed
  done | tar --null -T - -cf - | tar -C "${copy}" -xf -
  cd "${copy}"
}

quick_start() {
  echo "== ${copy}: deploy/quickstart.sh"
  tests/quickstart/quick_start_test.sh
}

run_tests() {
  local last
  echo "== ${copy}: tests/run.sh --quick"
  tests/run.sh --quick --no-install --filter '^base_test$' | tee tests.txt
  last="$(tail -n 1 tests.txt)"
  [[ "${last}" =~ ^[1-9][0-9]*\ passed,\ 0\ failed$ ]] || fail "the tests end with: ${last}"
}

make_copy quickstart_first
quick_start
run_tests

make_copy tests_first
run_tests
quick_start

cd "${ROOT}"
copy=''
rm -rf "${folder}"
