#!/usr/bin/env bash
# Builds what tests/bench/run_gpu.sh needs and packs it with the shared libraries that it links, for
# a machine that has a GPU and a checkout of the same commit, but nothing to build with. The server is
# that of the release bundle.
#
# Usage: tests/bench/pack_gpu.sh ARCHIVE
#
# ARCHIVE is a .tar.gz of bin/, lib/, bundle/ and the commit's hash. Needs nvcc. JOBS sets how many
# things are compiled at once; BUILD names another build folder than build/release.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly PROGRAMS=(
  tests/bench/gpu_bench
  tests/bench/load_bench
  tests/kernels/cuda/cuda_kernels_test
  tests/engine/backend/cuda/cuda_backend_test
  tests/end_to_end/end_to_end_backend_test
  tests/end_to_end/end_to_end_determinism_test
  tests/end_to_end/end_to_end_golden_test
  tests/end_to_end/end_to_end_sampling_test)
readonly LIBRARY=lib/libchorale_cuda.so
# The loader and the C library are the machine's own.
readonly OF_THE_SYSTEM='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so'

archive="${1:?usage: pack_gpu.sh ARCHIVE}"
build="${BUILD:-build/release}"
cmake --preset release >/dev/null
ninja -C "${build}" -j "${JOBS:-$(nproc)}" bundle chorale_cuda "${PROGRAMS[@]##*/}"

folder="$(mktemp -d)"
trap 'rm -rf "${folder}"' EXIT
mkdir "${folder}/bin" "${folder}/lib"
for program in "${PROGRAMS[@]}"; do
  strip -o "${folder}/bin/${program##*/}" "${build}/${program}"
done
strip -o "${folder}/lib/${LIBRARY##*/}" "${build}/${LIBRARY}"
ldd "${folder}"/bin/* "${folder}/lib/${LIBRARY##*/}" |
  awk '$2 == "=>" && $3 ~ /^\// {print $1, $3} / not found/ {print "missing", $1}' | sort -u |
  while read -r name path; do
    if [[ "${name}" == missing ]]; then
      echo "not found: ${path}" >&2
      exit 1
    fi
    if [[ ! "${name}" =~ ${OF_THE_SYSTEM} ]]; then cp -L "${path}" "${folder}/lib/${name}"; fi
  done
tar -C "${folder}" -xf "${build}"/bundle/chorale-*.tar.gz
mv "${folder}"/chorale-* "${folder}/bundle"
commit="$(git rev-parse --short=12 HEAD)"
if [[ -n "$(git status --porcelain)" ]]; then commit+=' with changes'; fi
echo "${commit}" >"${folder}/commit"
mkdir -p "$(dirname "${archive}")"
tar -C "${folder}" -czf "${archive}" bin lib bundle commit
du -sh "${folder}" "${archive}" | sed "s#${folder}#unpacked#"
