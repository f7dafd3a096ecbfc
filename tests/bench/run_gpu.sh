#!/usr/bin/env bash
# Everything that is to be shown on a GPU: the tests, what compute-sanitizer says of them, times
# beside PyTorch's, the service beside the engine, and what the profiler says of the kernels. Run
# from a checkout's root.
#
# Usage: tests/bench/run_gpu.sh PROGRAMS OUT [STAGE...]
#
#   PROGRAMS   what tests/bench/pack_gpu.sh made: the archive, or a folder that it was unpacked to
#   OUT        folder for results.jsonl, record.md and a log per stage; made if there is none
#   STAGE      tests bench service sanitizer profile; all without any. Each ends within ten minutes
#
# Exit status 1 when anything failed; what can be run then is run nevertheless. PYTHON names the
# interpreter that has PyTorch (python3); CASES those of compare_gpu.py that the stage bench runs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

readonly ALL_STAGES=(tests bench service sanitizer profile)
python="${PYTHON:-python3}"
export CHORALE_SOURCE_DIR="${PWD}" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
programs=''
out=''
results=''
stage=''
ours=()
failed=0

# ---- Running --------------------------------------------------------------------------------

have() {
  if [[ -x "${programs}/bin/$1" ]]; then return 0; fi
  echo "FAIL  $1: not among the programs"
  failed=1
  return 1
}

# check NAME SECONDS COMMAND...: one line about it here and one in the results; its output goes to
# the stage's log, and the end of it here when it failed.
check() {
  local name="$1" seconds="$2" start="${SECONDS}" status=0 log
  shift 2
  log="$(mktemp)"
  timeout --kill-after=10 "${seconds}" "$@" >"${log}" 2>&1 </dev/null || status=$?
  # A program that has found no GPU ends well, and has shown nothing.
  if ((status == 0)) && [[ "$*" =~ (cuda_kernels_test|cuda_backend_test|gpu_bench) ]] &&
    grep -q -E '^\[  SKIPPED|"skipped"' "${log}"; then
    status=77
  fi
  local took=$((SECONDS - start)) ok=true
  if ((status == 0)); then
    echo "ok    ${name} (${took} s)"
  else
    ok=false
    failed=1
    echo "FAIL  ${name} (${took} s, status ${status})"
    grep -m 20 -E -A3 'Failure|FAILED|SKIPPED|"skipped"|ERROR|[Ee]rror' "${log}" | cut -c -300 | head -n 40
    tail -n 8 "${log}" | cut -c -300
  fi
  printf '{"check": "%s", "ok": %s, "seconds": %d}\n' "${name}" "${ok}" "${took}" >>"${results}"
  { echo "==== ${name}: $*"; cat "${log}"; } >>"${out}/${stage}.log"
  cp "${log}" "${out}/.last"
  rm "${log}"
  return "${status}"
}

# Keeps the JSON lines that the last check printed.
keep_results() { grep '^{' "${out}/.last" >>"${results}"; }

# ---- Stages ---------------------------------------------------------------------------------

facts() {
  local card driver commit=unknown
  if ! nvidia-smi >/dev/null; then
    echo 'FAIL  there is no GPU; tests that need one are skipped'
    failed=1
  fi
  card="$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)"
  driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)"
  if [[ -f "${programs}/commit" ]]; then commit="$(<"${programs}/commit")"; fi
  printf '{"gpu": "%s", "driver": "%s", "commit": "%s", "date": "%s"}\n' \
    "${card:-none}" "${driver:-none}" "${commit}" "$(date -u +%F)" | tee -a "${results}"
  nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw,memory.used \
    --format=csv,noheader 2>&1
}

stage_tests() {
  local test
  for test in cuda_kernels_test cuda_backend_test; do
    if have "${test}"; then check "${test}" 200 "${ours[@]}" "${programs}/bin/${test}"; fi
  done
  for test in end_to_end_{backend,determinism,golden,sampling}_test; do
    if have "${test}"; then
      check "${test}" 90 "${ours[@]}" CHORALE_TEST_BACKEND=cuda \
        CHORALE_TEST_SERVER="${programs}/server" "${programs}/bin/${test}"
    fi
  done
}

stage_bench() {
  have gpu_bench || return
  check ceilings 60 "${python}" tests/bench/baselines/torch_ceilings.py && keep_results
  local only=()
  if [[ -n "${CASES:-}" ]]; then read -ra only <<<"--cases ${CASES}"; fi
  check compare_gpu 460 "${python}" tests/bench/compare_gpu.py \
    --bench "${ours[*]} ${programs}/bin/gpu_bench" --torch-python "${python}" \
    --out "${results}" --log "${out}/bench.err" "${only[@]}" ||
    grep -v -E '^(W[0-9]|  )' "${out}/bench.err" | tail -n 15 | cut -c -300
  check memory 50 "${ours[@]}" "${programs}/bin/gpu_bench" --measure=memory --point=c \
    --weights_mib=16 --workspace_mib=256 && keep_results
}

stage_service() {
  have load_bench || return
  check load_bench 300 "${ours[@]}" CHORALE_TEST_BACKEND=cuda \
    CHORALE_TEST_SERVER="${programs}/server" "${programs}/bin/load_bench" \
    --model=models/default --duration=5s \
    --context_pool_mib=4096 --buffer_pool_mib=16384
  keep_results
}

stage_sanitizer() {
  if ! have cuda_kernels_test || ! have gpu_bench; then return; fi
  local tool few
  few='AttentionTest.BuffersOfDecodeAndDensity:RowLayerTest.EveryStage:RowLayerTest.ByWarpgroups'
  few+=':HeadTest.*:EmbedTest.*:CellColumnsTest.*:CellPoolTest.*:CellRowsTest.*:CellSummaryTest.*:EncodeMeansTest.*'
  for tool in memcheck racecheck initcheck; do
    check "${tool}_kernels" 110 compute-sanitizer --target-processes all --tool "${tool}" \
      --error-exitcode 1 "${ours[@]}" "${programs}/bin/cuda_kernels_test" --gtest_filter="${few}"
    check "${tool}_backend" 80 compute-sanitizer --target-processes all --tool "${tool}" \
      --error-exitcode 1 "${ours[@]}" "${programs}/bin/gpu_bench" --point=tiny --rounds=1 \
      --runs=1 --workspace_mib=64
  done
}

# profile NAME SKIP COUNT FLAG...: launches of one run behind the first SKIP, with what they find in
# caches in truth: from one step to the next, weights and contexts stay in the level-two cache.
profile() {
  local name="$1" skip="$2" count="$3"
  shift 3
  check "profile_${name}" 140 ncu --target-processes all --clock-control none --cache-control none \
    --profile-from-start off --set full --csv --page raw --print-units base \
    --kernel-name 'regex:AttentionKernel|RowLayerKernel|RowProductKernel' \
    --launch-skip "${skip}" --launch-count "${count}" \
    "${ours[@]}" "${programs}/bin/gpu_bench" --profile --overlap=false "$@" || return
  "${python}" tests/bench/profile_table.py "${name}" <"${out}/.last" >>"${results}"
}

# In the middle of a decode, where buffers are half full: a step launches 25 of these kernels.
stage_profile() {
  have gpu_bench || return
  profile decode_b 402 4 --measure=decode --point=b
  profile decode_c 402 4 --measure=decode --point=c
  profile decode_d 402 4 --measure=decode --point=d
  profile encode_8192 8 4 --measure=encode --point=b --paths=32 --context_rows=8192
}

# ---- Main -----------------------------------------------------------------------------------

# open_programs PATH: of the archive, or the folder.
open_programs() {
  programs="$1"
  if [[ -f "${programs}" ]]; then
    programs="$(mktemp -d)"
    # shellcheck disable=SC2064  # of this folder
    trap "rm -rf '${programs}'" EXIT
    tar -xf "$1" -C "${programs}" || exit 1
  fi
  programs="$(cd "${programs}" && pwd)" || exit 1
  # For these programs alone: Python and NVIDIA's tools have libraries of their own.
  ours=(env "LD_LIBRARY_PATH=${programs}/lib${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}")
  # The bundle's server finds its libraries by itself.
  printf '#!/bin/sh\nunset LD_LIBRARY_PATH\nexec "%s" "$@"\n' \
    "${programs}/bundle/bin/chorale-server" >"${programs}/server"
  chmod +x "${programs}/server"
}

main() {
  if (($# < 2)); then
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 2
  fi
  open_programs "$1"
  mkdir -p "$2"
  out="$(cd "$2" && pwd)"
  results="${out}/results.jsonl"
  shift 2
  local stages=("$@") started
  if ((${#stages[@]} == 0)); then stages=("${ALL_STAGES[@]}"); fi
  for stage in "${stages[@]}"; do
    if ! declare -F "stage_${stage}" >/dev/null; then
      echo "unknown stage: ${stage} (one of: ${ALL_STAGES[*]})" >&2
      exit 2
    fi
  done

  facts
  for stage in "${stages[@]}"; do
    started="${SECONDS}"
    "stage_${stage}"
    echo "== ${stage}: $((SECONDS - started)) s"
  done
  rm -f "${out}/.last"
  "${python}" tests/bench/gpu_record.py "${out}" | tee "${out}/record.md"
  ((failed == 0))
}

main "$@"
