#!/usr/bin/env bash
# Fetches the program kustomize into FOLDER. That of the distribution is too old: kubectl 1.20, in
# Debian 12 and Ubuntu 24.04, knows no components. On Debian 12 that of Debian 13 runs as well; it
# comes from the mirror, and with the keys, that apt uses here. Nothing is installed, and apt's own
# lists stay as they are.
#
# Usage: fetch_kustomize.sh FOLDER
set -euo pipefail

readonly RELEASE=trixie
folder="$1"
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT

mirror="$(apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 'Label: Debian' |
  sort -u | sed -n 1p)"
if [[ -z "${mirror}" ]]; then
  echo 'this is not Debian' >&2
  exit 1
fi
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror} ${RELEASE} main" \
  >"${work}/sources.list"
mkdir -p "${work}/lists/partial" "${work}/cache/archives/partial" "${folder}"
cat >"${work}/apt.conf" <<EOF
Dir::State "${work}";
Dir::State::lists "${work}/lists";
Dir::State::status "/dev/null";
Dir::Cache "${work}/cache";
Dir::Etc::sourcelist "${work}/sources.list";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
APT::Sandbox::User "";
EOF
export APT_CONFIG="${work}/apt.conf"
apt-get update -qq
cd "${work}"
apt-get download -qq kustomize
dpkg-deb --extract kustomize_*.deb root
cd - >/dev/null
mv "${work}/root/usr/bin/kustomize" "${folder}/"
