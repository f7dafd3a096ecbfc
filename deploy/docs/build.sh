#!/usr/bin/env bash
# Builds the documentation site in build/docs/site. Warnings are errors. Requires protoc and the
# programs in build/release, from which some pages are generated; CHORALE_BUILD sets another folder.
#
# Usage: deploy/docs/build.sh [MKDOCS_COMMAND...]      for example: deploy/docs/build.sh serve
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly PYTHON=build/docs/python
readonly REQUIREMENTS=deploy/docs/requirements.txt

if ! cmp -s "${REQUIREMENTS}" "${PYTHON}/requirements.txt"; then
  rm -rf "${PYTHON}"
  python3 -m venv "${PYTHON}"
  "${PYTHON}/bin/pip" --disable-pip-version-check --no-input install --quiet \
    --only-binary :all: --requirement "${REQUIREMENTS}"
  cp "${REQUIREMENTS}" "${PYTHON}/requirements.txt"  # last: it marks a complete environment
fi
# Without --quiet, because mkdocs would not count warnings.
if (($# == 0)); then set -- build --strict; fi
PYTHONDONTWRITEBYTECODE=1 "${PYTHON}/bin/python" -m mkdocs "$@"
