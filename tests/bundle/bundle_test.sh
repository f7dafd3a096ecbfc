#!/usr/bin/env bash
# Shows that a release bundle needs nothing but the C library: every shared library that its programs
# ask for lies in it, and its server and client work with an empty environment.
#
# Usage: tests/bundle/bundle_test.sh BUNDLE.tar.gz
set -euo pipefail

readonly GLIBC='^(linux-vdso|ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv))\.so'

work="$(mktemp -d)"
server=''
end() {
  if [[ -n "${server}" ]]; then kill -KILL "${server}" 2>/dev/null || true; fi
  rm -rf "${work}"
}
trap end EXIT

fail() { echo "$*" >&2; exit 1; }

# check_libraries FILE: what it needs, and what that needs in turn.
check_libraries() {
  local line name path
  while read -r line; do
    name="$(basename "${line%% *}")"
    if [[ "${name}" =~ ${GLIBC} ]]; then continue; fi
    path="$(sed -n 's/.* => \([^ ]*\) .*/\1/p' <<<"${line}")"
    [[ "$(realpath -m "${path}")" == "${root}/lib/"* ]] || fail "$1 takes from outside: ${line}"
  done < <(env -i ldd "$1")
}

# Runs both programs where there is nothing else, not even a shell. Needs root.
run_alone() {
  local alone="${work}/alone" libraries program
  mkdir "${alone}"
  cp -r "${root}" "${alone}/bundle"
  mapfile -t libraries < <(env -i ldd "${root}/bin/chorale-server" | grep -o '/[^ ]*' |
    grep -v "^${root}")
  cp --parents --dereference "${libraries[@]}" "${alone}"
  mkdir -p "${alone}/proc/self"
  for program in chorale-server chorale; do
    # The loader asks there in which folder the program lies.
    ln -sfn "/bundle/bin/${program}" "${alone}/proc/self/exe"
    env -i /usr/sbin/chroot "${alone}" "/bundle/bin/${program}" --version
  done
}

client() { env -i "${root}/bin/chorale" "$@" --server "127.0.0.1:$(cat "${work}/port")"; }

tar xzf "$1" -C "${work}"
root="$(realpath "${work}"/chorale-*)"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for file in "${root}"/bin/* "${root}"/lib/libchorale*.so; do
  if [[ -e "${file}" ]]; then check_libraries "${file}"; fi
done
# 540 MB that only wide models on a GPU need, which find them where CUDA has put them.
[[ -z "$(find "${root}" -iname '*cublas*')" ]] || fail "cuBLAS is in the bundle"
[[ -f "${root}/LICENSE" ]] || fail "no licence"
if ((EUID == 0)); then run_alone; fi

env -i "${root}/bin/chorale-server" --models="${root}/share/chorale/models/default" \
  --data_dir="${work}/data" --listen_address=127.0.0.1:0 --metrics_address=127.0.0.1:0 \
  --port_file="${work}/port" --lame_duck=0s >"${work}/log" 2>&1 &
server=$!
for _ in {1..200}; do
  if grep -q ' serving ' "${work}/log"; then break; fi
  kill -0 "${server}" 2>/dev/null || fail "the server has ended: $(cat "${work}/log")"
  sleep 0.1
done
# The bundle's own library of the GPU backend was found and opened, GPU or not.
if [[ -e "${root}/lib/libchorale_cuda.so" ]]; then
  grep -q -e 'there is no GPU' -e 'no GPU can be used' -e 'backend="cuda' "${work}/log" ||
    fail "the GPU backend was not opened: $(cat "${work}/log")"
fi
client register datasets/penguins.csv --target body_mass_g --name penguins
client sample penguins datasets/penguins_heldout.csv --paths 10 --seed 1 --quiet \
  --output "${work}/paths.csv"
[[ "$(wc -l <"${work}/paths.csv")" -ge 240 ]] || fail "the samples are not complete"
kill -TERM "${server}"
wait "${server}" || fail "the server ended with $?: $(cat "${work}/log")"
server=''
echo "$(du -h --apparent-size "$1" | cut -f1)  $1"
