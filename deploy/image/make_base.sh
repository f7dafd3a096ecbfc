#!/usr/bin/env bash
# Makes the root file system of a small Debian from Debian's packages, as a tar archive. Needs
# mmdebstrap and root. With SOURCE_DATE_EPOCH set, the same packages make the same bytes.
#
# Usage: deploy/image/make_base.sh [--current-grpc] OUT.tar
#
#   --current-grpc   Debian unstable with the gRPC and the Protobuf of current_grpc.pref from
#                    experimental, in place of Debian 12, whose gRPC is 1.51
#
# To make it the image that the Dockerfile begins with:
#
#   deploy/image/make_base.sh base.tar
#   docker import base.tar localhost/chorale-base:bookworm
#
# MMDEBSTRAP_OPTIONS are for mirrors that need some, such as an old one of which apt has to be told
# that it has expired: --aptopt='Acquire::Check-Valid-Until "false"'.
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
# apt's own list of mirrors for the suite: its updates and security updates as well.
mmdebstrap --variant=minbase --format=tar --quiet --include=ca-certificates \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  "${options[@]}" "${hooks[@]}" "${suite}" "${part}"
mv "${part}" "${out}"
