#!/usr/bin/env bash
# Does in this checkout what README.md begins with: the quick start.
#
# Usage: tests/quickstart/quick_start_test.sh
#
# A server of the quick start that was running before goes on running.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly STEPS_OF_README=('deploy/quickstart.sh ' 'deploy/quickstart.sh --stop' 'tests/run.sh --quick')
readonly CACHE=build/release/CMakeCache.txt
output="$(mktemp)"
readonly output

fail() { echo "FAIL  $*" >&2; exit 1; }

for step in "${STEPS_OF_README[@]}"; do
  head -n 40 README.md | grep -q -F "${step}" || fail "README.md no longer begins with: ${step}"
done

first=1
if [[ -f "${CACHE}" ]]; then first=0; fi
stop_at_end=1
if kill -0 "$(cat build/quickstart/server.pid 2>/dev/null)" 2>/dev/null; then stop_at_end=0; fi
end() {
  rm -f "${output}"
  if ((stop_at_end)); then deploy/quickstart.sh --stop; fi
}
trap end EXIT

deploy/quickstart.sh --no-install | tee "${output}"
grep -q '^The server runs at ' "${output}" || fail "the quick start has not come to its end"
[[ "$(wc -l <build/quickstart/paths.csv)" -ge 24000 ]] || fail "the samples are not complete"
# The quick start installs only what the group [build] of deploy/packages.txt lists.
if ((first)) && grep -q '^GTest_DIR' "${CACHE}"; then fail "the quick start needs GoogleTest"; fi
