#!/usr/bin/env python3
"""Creates the bill of materials of a release bundle or an image, in CycloneDX 1.5 JSON.

    deploy/make_sbom.py --root FOLDER --third_party FILE.tsv --version VERSION --output FILE.json
                        [--cuda_version VERSION]

FOLDER has the folders bin, lib and share of the bundle. Each line of FILE.tsv names a package of
the distribution and, after a tab, its contribution: the path of a file in FOLDER, "compiled-in" for
code that is part of the programs, or "system" for files that are not listed individually. Versions
and licences are those of the packages on this machine, according to dpkg. The output is
reproducible: SOURCE_DATE_EPOCH is the time of the bill.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid
from typing import Any

Json = dict[str, Any]

# Names in Debian's copyright files, and the identifiers of SPDX.
SPDX = {'Apache-2': 'Apache-2.0', 'Apache-2.0': 'Apache-2.0', 'BSD-3-clause': 'BSD-3-Clause',
        'BSD-3-Clause': 'BSD-3-Clause', 'BSD-2-clause': 'BSD-2-Clause', 'Expat': 'MIT',
        'MIT': 'MIT', 'Zlib': 'Zlib', 'zlib': 'Zlib', 'MPL-2.0': 'MPL-2.0'}
CUDA_LICENCE = {'license': {'name': 'End User License Agreement of the NVIDIA CUDA Toolkit'}}
OWN_LICENCE = {'license': {'id': 'Apache-2.0'}}


def sha256(path: pathlib.Path) -> list[Json]:
    return [{'alg': 'SHA-256', 'content': hashlib.sha256(path.read_bytes()).hexdigest()}]


def os_release() -> dict[str, str]:
    lines = pathlib.Path('/etc/os-release').read_text(encoding='utf-8').splitlines()
    pairs = (line.split('=', 1) for line in lines if '=' in line)
    return {key: value.strip('"') for key, value in pairs}


def package_fields(package: str) -> dict[str, str]:
    fields = ['Version', 'Architecture', 'source:Package', 'source:Version']
    form = '\n'.join('${' + field + '}' for field in fields) + '\n'
    # A package that is installed for several architectures is listed once for each.
    lines = subprocess.run(['dpkg-query', '--show', '--showformat', form, package],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    return dict(zip(fields, lines))


def licence_of(package: str) -> Json:
    """Returns the licence of most files of the package: that of the stanza "Files: *"."""
    text = pathlib.Path(f'/usr/share/doc/{package}/copyright').read_text(
        encoding='utf-8', errors='replace')
    for stanza in re.split(r'\n\s*\n', text):
        name = re.search(r'^License:[ \t]*(\S.*)$', stanza, re.MULTILINE)
        if re.search(r'^Files:\s*\*\s*$', stanza, re.MULTILINE) and name:
            short = name.group(1).strip()
            return {'license': {'id': SPDX[short]} if short in SPDX else {'name': short}}
    return {'license': {'name': f'see share/doc/chorale/third_party/{package}/copyright'}}


def package_component(package: str, uses: list[str], root: pathlib.Path) -> Json:
    fields, release = package_fields(package), os_release()
    distribution = release['ID']
    purl = (f'pkg:deb/{distribution}/{package}@{fields["Version"].replace("+", "%2B")}'
            f'?arch={fields["Architecture"]}&distro={distribution}-{release["VERSION_ID"]}')
    component: Json = {
        'type': 'library', 'bom-ref': purl, 'name': package, 'version': fields['Version'],
        'licenses': [licence_of(package)], 'purl': purl,
        'properties': [
            {'name': 'chorale:source_package', 'value': fields['source:Package']},
            {'name': 'chorale:source_version', 'value': fields['source:Version']},
            {'name': 'chorale:use',
             'value': ', '.join(sorted({use if use in ('compiled-in', 'system') else 'file'
                                        for use in uses}))}]}
    files = sorted(use for use in uses if use not in ('compiled-in', 'system'))
    if files:
        component['components'] = [
            {'type': 'file', 'bom-ref': f'file:{name}', 'name': name, 'hashes': sha256(root / name)}
            for name in files]
    return component


def own_components(root: pathlib.Path, version: str) -> list[Json]:
    parts = sorted([*root.glob('bin/chorale*'), *root.glob('lib/libchorale*.so')])
    components: list[Json] = []
    for path in parts:
        components.append({
            'type': 'application' if path.parent.name == 'bin' else 'library',
            'bom-ref': f'file:{path.relative_to(root)}', 'name': path.name, 'version': version,
            'licenses': [OWN_LICENCE], 'hashes': sha256(path)})
    for path in sorted(root.glob('share/chorale/models/*/model.safetensors')):
        digest = sha256(path)
        components.append({
            'type': 'machine-learning-model', 'bom-ref': f'file:{path.relative_to(root)}',
            'name': path.parent.name, 'version': digest[0]['content'][:12],
            'licenses': [OWN_LICENCE], 'hashes': digest})
    return components


def cuda_component(version: str) -> Json:
    return {'type': 'library', 'bom-ref': 'cuda-runtime', 'name': 'cuda-runtime',
            'version': version, 'supplier': {'name': 'NVIDIA Corporation'},
            'description': 'libcudart_static.a, part of libchorale_cuda.so',
            'licenses': [CUDA_LICENCE]}


def read_third_party(path: pathlib.Path) -> dict[str, list[str]]:
    uses: dict[str, list[str]] = {}
    for line in path.read_text(encoding='utf-8').splitlines():
        package, use = line.split('\t')
        uses.setdefault(package, []).append(use)
    return uses


def make_bill(root: pathlib.Path, third_party: dict[str, list[str]], version: str,
              cuda_version: str) -> Json:
    components = own_components(root, version)
    if (root / 'lib/libchorale_cuda.so').exists():
        if not cuda_version:
            raise SystemExit('make_sbom.py: --cuda_version is required by the GPU backend')
        components.append(cuda_component(cuda_version))
    components += [package_component(package, uses, root)
                   for package, uses in sorted(third_party.items())]
    whole = f'chorale@{version}'
    time = datetime.datetime.fromtimestamp(int(os.environ.get('SOURCE_DATE_EPOCH', '0')),
                                           datetime.timezone.utc)
    bill: Json = {
        'bomFormat': 'CycloneDX', 'specVersion': '1.5', 'version': 1,
        'metadata': {
            'timestamp': time.strftime('%Y-%m-%dT%H:%M:%SZ'),
            'tools': {'components': [{'type': 'application', 'name': 'make_sbom.py'}]},
            'component': {'type': 'application', 'bom-ref': whole, 'name': 'chorale',
                          'version': version, 'licenses': [OWN_LICENCE]}},
        'components': components,
        'dependencies': [{'ref': whole, 'dependsOn': [each['bom-ref'] for each in components]}]}
    # An identifier that depends only on the content.
    content = json.dumps(bill, sort_keys=True)
    bill['serialNumber'] = f'urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}'
    return bill


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--root', type=pathlib.Path, required=True)
    parser.add_argument('--third_party', type=pathlib.Path, required=True)
    parser.add_argument('--version', required=True)
    parser.add_argument('--cuda_version', default='')
    parser.add_argument('--output', type=pathlib.Path, required=True)
    options = parser.parse_args()
    bill = make_bill(options.root, read_third_party(options.third_party), options.version,
                     options.cuda_version)
    options.output.write_text(json.dumps(bill, indent=1) + '\n', encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main())
