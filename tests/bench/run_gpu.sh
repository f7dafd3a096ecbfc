#!/usr/bin/env bash
# Everything that is to be shown on a GPU, in one go: the tests, what compute-sanitizer says of
# them, times, and what the profiler says of the kernels. Run from the repository's root.
#
# Usage: tests/bench/run_gpu.sh PROGRAMS OUT
#
#   PROGRAMS   folder of cuda_kernels_test, cuda_backend_test and gpu_decode, with the shared
#              libraries that they need in PROGRAMS/lib
#   OUT        folder for the logs
#
# STAGES chooses among: tests bench sanitizer profile.
set -uo pipefail

programs="$1"
out="$2"
stages="${STAGES:-tests bench sanitizer profile}"
export LD_LIBRARY_PATH="${programs}/lib:${LD_LIBRARY_PATH:-}"
failed=0

# run NAME SECONDS COMMAND...: keeps the output, and shows its end when the command fails.
run() {
  local name="$1" seconds="$2" start="${SECONDS}"
  shift 2
  if timeout "${seconds}" "$@" >"${out}/${name}.log" 2>&1; then
    echo "ok    ${name} ($((SECONDS - start)) s)"
  else
    echo "FAIL  ${name} ($((SECONDS - start)) s)"
    grep -E -A12 'Failure|FAILED|ERROR|Error|error' "${out}/${name}.log" | head -n 60
    tail -n 5 "${out}/${name}.log"
    failed=1
  fi
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu --format=csv,noheader
if [[ "${stages}" == *tests* ]]; then
  run kernels 120 "${programs}/cuda_kernels_test"
  run backend 240 "${programs}/cuda_backend_test"
  grep -h 'worst' "${out}/backend.log"
fi
if [[ "${stages}" == *bench* ]]; then
  run decode 200 "${programs}/gpu_decode"
  cat "${out}/decode.log"
fi
if [[ "${stages}" == *sanitizer* ]]; then
  few='AttentionTest.BuffersOfDecodeAndDensity:AttentionTest.ContextsOfEverySize:RowLayerTest.EveryStage:HeadTest.*:EmbedTest.*'
  for tool in memcheck racecheck initcheck; do
    run "${tool}" 150 compute-sanitizer --tool "${tool}" --error-exitcode 1 \
      "${programs}/cuda_kernels_test" --gtest_filter="${few}"
  done
fi
if [[ "${stages}" == *profile* ]]; then
  run profile 120 ncu --clock-control none --set basic --section SpeedOfLight \
    --section WarpStateStats --section ComputeWorkloadAnalysis --launch-skip 30 --launch-count 6 \
    "${programs}/gpu_decode" --points b --runs 1
  grep -E '^  [A-Za-z:]+.*\(|Duration|Throughput|Registers|Occupancy|Elapsed' "${out}/profile.log" | head -n 120
fi
exit "${failed}"
