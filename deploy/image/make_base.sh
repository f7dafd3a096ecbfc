#!/usr/bin/env bash
# Creates a tar archive with the root file system of a minimal Debian. Requires mmdebstrap and root.
# If SOURCE_DATE_EPOCH is set, the output is reproducible from the same packages.
#
# Usage: deploy/image/make_base.sh [--current-grpc] OUT.tar
#
#   --current-grpc   use Debian unstable, with the gRPC and Protobuf packages of current_grpc.pref
#                    from experimental, instead of Debian 12, which has gRPC 1.51
#
# To import the archive as the base image of the Dockerfile:
#
#   deploy/image/make_base.sh base.tar
#   docker import base.tar localhost/chorale-base:bookworm
#
# MMDEBSTRAP_OPTIONS has further options of mmdebstrap, for example for a mirror whose release files
# have expired: --aptopt='Acquire::Check-Valid-Until "false"'.
set -euo pipefail

suite=bookworm
hooks=()
if [[ "${1:-}" == --current-grpc ]]; then
  shift
  suite=sid
  # shellcheck disable=SC2016  # mmdebstrap's shell expands it
  hooks=(
    --customize-hook='sed "s/ sid / experimental /" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/experimental.list"'
    --customize-hook="copy-in $(dirname "${BASH_SOURCE[0]}")/current_grpc.pref /etc/apt/preferences.d"
  )
fi
out="${1:?usage: deploy/image/make_base.sh [--current-grpc] OUT.tar}"
part="${out}.part"
options=()
if [[ -n "${MMDEBSTRAP_OPTIONS:-}" ]]; then mapfile -t options < <(xargs -n 1 <<<"${MMDEBSTRAP_OPTIONS}"); fi
# The default sources of the suite include its updates and security updates.
mmdebstrap --variant=minbase --format=tar --quiet --include=ca-certificates \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  "${options[@]}" "${hooks[@]}" "${suite}" "${part}"
mv "${part}" "${out}"
