#!/usr/bin/env bash
# Builds the release bundle from the sources in this repository, and creates the file system of an
# image from it. The Dockerfile runs this script. Requires Debian 12 or Ubuntu 24.04 with the
# packages [build] and [package].
#
# Usage: deploy/image/make_root.sh [--cuda] [--with-c-library] OUT
#
#   --cuda              include the GPU backend; requires nvcc
#   --with-c-library    include the parts of a system that the bundle requires: the C library,
#                       certificates, users
#
# Environment variables: REVISION is the commit for the server's chorale_build_info, JOBS is the
# number of parallel compilations, and SOURCE_DATE_EPOCH is the modification time of all files.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly BUILD=build/release
readonly BUNDLE="${BUILD}/bundle"
readonly LIST="${BUNDLE}/third_party.tsv"
readonly USER_ID=65532
cuda=OFF
c_library=0
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --cuda) cuda=ON ;;
    --with-c-library) c_library=1 ;;
    *) echo "unknown argument: $1" >&2; exit 2 ;;
  esac
  shift
done
readonly OUT="${1:?usage: deploy/image/make_root.sh [--cuda] [--with-c-library] OUT}"
readonly THIRD_PARTY="${OUT}/usr/share/doc/chorale/third_party"
readonly SBOM="${OUT}/usr/share/doc/chorale/sbom.cdx.json"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}"

build() {
  export CCACHE_BASEDIR="${PWD}" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 \
    CCACHE_SLOPPINESS=pch_defines,time_macros
  cmake --preset release-without-tests -DCHORALE_CUDA="${cuda}" \
    -DCHORALE_COMMIT="${REVISION:-}"
  ninja -C "${BUILD}" -j "${JOBS:-$(nproc)}" bundle
  ccache --show-stats 2>/dev/null | grep -i -m 1 hits || true
}

# Copies the bundle; its folders bin, lib and share are those of /usr.
copy_bundle() {
  mkdir -p "${OUT}/usr" "${OUT}/etc/chorale" "${OUT}/var/lib/chorale"
  cp -a "${BUNDLE}"/chorale-*/. "${OUT}/usr"
  rm "${OUT}/usr/LICENSE"  # share/doc has a copy
  cp deploy/image/config.yaml "${OUT}/etc/chorale"
  if [[ "${cuda}" == ON ]]; then echo 'backend: cuda' >>"${OUT}/etc/chorale/config.yaml"; fi
  chown "${USER_ID}:${USER_ID}" "${OUT}/var/lib/chorale"
  chmod 750 "${OUT}/var/lib/chorale"
}

# Prints the path of each system library that the programs of the bundle load.
system_libraries() {
  local file
  for file in "${OUT}"/usr/bin/*; do ldd "${file}"; done |
    grep -o '/[^ ]*' | grep -v "^${OUT}" | grep -v ':$' | sort -u
}

# Records package $1 for scanners, and copies its licence.
add_package() {
  local status="${OUT}/var/lib/dpkg/status.d" licence="${THIRD_PARTY}/$1"
  mkdir -p "${status}" "${licence}"
  cp -L "/usr/share/doc/$1/copyright" "${licence}/copyright"
  dpkg-query --status "$1" >"${status}/$1"
}

copy_system() {
  local library path
  # Programs contain the path of the loader, so /lib and /lib64 must lead to it.
  mkdir -p "${OUT}/usr/lib64" "${OUT}/etc/ssl/certs" "${OUT}"/{dev,proc,sys,tmp}
  chmod 1777 "${OUT}/tmp"
  ln -s usr/lib "${OUT}/lib"
  ln -s usr/lib64 "${OUT}/lib64"
  system_libraries | while read -r library; do
    path="${library#/usr}"
    mkdir -p "${OUT}/usr${path%/*}"
    cp -L "${library}" "${OUT}/usr${path}"
    printf 'libc6\t%s\n' "${path#/}"
  done >>"${LIST}"
  cp /etc/ssl/certs/ca-certificates.crt "${OUT}/etc/ssl/certs"
  printf '%s\tsystem\n' base-files ca-certificates >>"${LIST}"
  cp -L /etc/os-release "${OUT}/etc/os-release"
  cat >"${OUT}/etc/passwd" <<END
root:x:0:0:root:/:/sbin/nologin
chorale:x:${USER_ID}:${USER_ID}:Chorale:/var/lib/chorale:/sbin/nologin
END
  cat >"${OUT}/etc/group" <<END
root:x:0:
chorale:x:${USER_ID}:
END
  echo 'hosts: files dns' >"${OUT}/etc/nsswitch.conf"
}

# Creates the bill of materials again, with the files of the system.
make_sbom() {
  local bundle version
  bundle="$(basename "${BUNDLE}"/chorale-*-linux-*/)"
  version="${bundle#chorale-}"
  deploy/make_sbom.py --root "${OUT}/usr" --third_party "${LIST}" \
    --version "${version%-linux-*}" --output "${SBOM}"
}

build
copy_bundle
if ((c_library)); then
  copy_system
  awk -F '\t' '$2 != "compiled-in" {print $1}' "${LIST}" | sort -u | while read -r package; do
    add_package "${package}"
  done
  make_sbom
fi
find "${OUT}" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +
du -sh --apparent-size "${OUT}"
