#!/usr/bin/env bash
# Installs the missing packages of the named groups of packages.txt. Prints nothing and requires no
# privileges if no package is missing.
#
# Usage: deploy/install_packages.sh GROUP...      groups: build package envoy test deploy browser
#        stubs
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"
readonly list

# Prints the entries of group $1.
group_entries() {
  awk -v want="[$1]" '
    /^#/ || /^$/ { next }
    /^\[/        { inside = ($0 == want); found = found || inside; next }
    inside       { print }
    END          { exit !found }' "${list}" ||
    { echo "deploy/packages.txt has no group [$1]" >&2; return 1; }
}

is_installed() {
  [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

is_available() {
  [[ -n "$(apt-cache madison "$1" 2>/dev/null)" ]]
}

# Succeeds if any alternative of entry $1 is installed.
has_any() {
  local name
  for name in ${1//|/ }; do
    if is_installed "${name}"; then return 0; fi
  done
  return 1
}

# Prints the first alternative of entry $1 that apt can install.
choose() {
  local name
  for name in ${1//|/ }; do
    if is_available "${name}"; then
      echo "${name}"
      return 0
    fi
  done
  echo "apt has none of these packages: ${1//|/, }" >&2
  return 1
}

main() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "This system has no apt: install the packages in deploy/packages.txt manually." >&2
    exit 1
  fi
  local entries=() missing=() group entry
  for group in "$@"; do
    local lines
    lines="$(group_entries "${group}")"
    mapfile -t -O "${#entries[@]}" entries <<<"${lines}"
  done
  for entry in "${entries[@]}"; do
    has_any "${entry}" || missing+=("${entry}")
  done
  if ((${#missing[@]} == 0)); then return; fi

  local sudo=()
  if ((EUID != 0)); then sudo=(sudo); fi
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq
  local names=()
  for entry in "${missing[@]}"; do
    names+=("$(choose "${entry}")")
  done
  echo "Installing: ${names[*]}"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${names[@]}" >/dev/null
}

main "$@"
