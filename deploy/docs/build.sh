#!/usr/bin/env bash
# Makes the documentation's site in build/docs/site; any warning is an error. Needs protoc and the
# programs in build/release (CHORALE_BUILD names another folder): some pages are made from them.
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
  cp "${REQUIREMENTS}" "${PYTHON}/requirements.txt"  # last: an environment without is not whole
fi
# Not --quiet: then warnings are not counted.
if (($# == 0)); then set -- build --strict; fi
PYTHONDONTWRITEBYTECODE=1 "${PYTHON}/bin/python" -m mkdocs "$@"
