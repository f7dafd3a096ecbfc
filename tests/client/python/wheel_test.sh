#!/usr/bin/env bash
# The wheel of the Python client: built, installed and imported with each Python from 3.10 on that is
# in the PATH. Needs a package index.
#
# Usage: wheel_test.sh PYTHON_WITH_GRPCIO_TOOLS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

folder="$(mktemp -d)"
trap 'rm -rf "${folder}"' EXIT
"$1" -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir "${folder}" client/python
tried=0
for version in 3.10 3.11 3.12 3.13; do
  if ! interpreter="$(command -v "python${version}")" || ! "${interpreter}" -c "import ensurepip" 2>/dev/null; then
    echo "no Python ${version}"
    continue
  fi
  "${interpreter}" -m venv "${folder}/${version}"
  "${folder}/${version}/bin/pip" --disable-pip-version-check --no-input install --quiet \
    --only-binary :all: "${folder}"/chorale_client-*.whl
  (cd "${folder}" && "${version}/bin/python" -W error -c '
import chorale_client, chorale_client._v1.chorale_pb2_grpc
try:
    chorale_client.connect("127.0.0.1:1", connect_timeout=0)
except chorale_client.UnavailableError as error:
    print(chorale_client.__version__, error)
')
  tried=$((tried + 1))
done
((tried > 0))
