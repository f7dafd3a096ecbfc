#!/usr/bin/env bash
# Fetches prometheus, promtool and prometheus-alertmanager of the distribution into FOLDER. They are
# not installed: their packages would start services.
#
# Usage: fetch_prometheus.sh FOLDER
set -euo pipefail

mkdir -p "$1"
folder="$(cd "$1" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
chmod 755 "${work}"  # apt downloads as a user of its own

cd "${work}"
apt-get download -qq -o APT::Sandbox::User=root prometheus prometheus-alertmanager
for package in ./*.deb; do dpkg-deb --extract "${package}" root; done
mv root/usr/bin/{prometheus,promtool,prometheus-alertmanager} "${folder}/"
# Alertmanager reads its default template from /usr/share, wherever it lies itself.
mkdir -p "${folder}/share"
cp -r root/usr/share/prometheus "${folder}/share/"
