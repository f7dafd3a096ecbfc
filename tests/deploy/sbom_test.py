#!/usr/bin/env python3
"""Checks the bill of materials that lies in each folder named, and the checksums beside a bundle.

    tests/deploy/sbom_test.py BUNDLE_FOLDER

BUNDLE_FOLDER is what `ninja bundle` fills. The bill must follow CycloneDX's schema and name every
file that the bundle has from elsewhere. Needs the packages in deploy/docs/requirements.txt.
"""

import hashlib
import json
import pathlib
import subprocess
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def check_schema(text: str) -> None:
    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    assert error is None, error
    # A validator that finds nothing wrong with this finds nothing at all.
    broken = text.replace('"machine-learning-model"', '"model"')
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(broken) is not None


def check_content(bill: dict, bundle: pathlib.Path) -> None:
    listed = {}
    for component in bill['components']:
        for part in [component, *component.get('components', [])]:
            if part['bom-ref'].startswith('file:'):
                listed[part['bom-ref'].removeprefix('file:')] = part['hashes'][0]['content']
        assert component['licenses'], component
        assert component['version'], component
    files = [path for folder in ('bin', 'lib') for path in (bundle / folder).iterdir()]
    assert len(files) > 20, files
    for path in files:
        name = str(path.relative_to(bundle))
        assert listed[name] == hashlib.sha256(path.read_bytes()).hexdigest(), name
    names = {component['name'] for component in bill['components']}
    # Linked, compiled in, and the model.
    assert {'libgrpc++1.51', 'libcli11-dev', 'default'} <= names or \
        {'libgrpc++1.51t64', 'libcli11-dev', 'default'} <= names, names
    has_cuda = (bundle / 'lib/libchorale_cuda.so').exists()
    assert ('cuda-runtime' in names) == has_cuda
    licence = bundle / 'share/doc/chorale/third_party/cuda-toolkit/copyright'
    assert licence.exists() == has_cuda
    if has_cuda:
        # The file that we pass on must be one that its licence lets us pass on.
        assert 'libcudart_static.a' in licence.read_text(encoding='utf-8')


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    [bundle] = [path for path in folder.iterdir() if path.is_dir()]
    outside = (folder / f'{bundle.name}.cdx.json').read_text(encoding='utf-8')
    assert outside == (bundle / 'share/doc/chorale/sbom.cdx.json').read_text(encoding='utf-8')
    check_schema(outside)
    check_content(json.loads(outside), bundle)
    checked = subprocess.run(['sha256sum', '--check', '--strict', 'SHA256SUMS'], cwd=folder,
                             check=False, capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stdout.count(': OK') == 2, checked
    print(f'{len(json.loads(outside)["components"])} components')
    return 0


if __name__ == '__main__':
    sys.exit(main())
