"""The settings that the server of a build runs with."""

from __future__ import annotations

import re
from typing import Any

from manifests.objects import Build, Object, container, load_yaml, mounted_files
from manifests.sources import Sources, seconds

# What a pool of size 0 means on a CPU; on a GPU these two pools are in the GPU's memory.
_CPU_POOLS = {'context_pool_mib': 4096, 'buffer_pool_mib': 1024}


def arguments(build: Build) -> dict[str, str]:
    """The flags of the server's command line."""
    pairs = (argument.removeprefix('--').split('=', 1) for argument in
             container(build.server())['args'])
    return {pair[0]: pair[1] if len(pair) == 2 else 'true' for pair in pairs}


def config_text(build: Build) -> str:
    """The file that --config names, as the container sees it."""
    path = arguments(build)['config']
    files = mounted_files(build, build.server(), container(build.server()))
    if path not in files:
        raise LookupError(f'no ConfigMap is mounted as {path}')
    return files[path].decode()


def config(build: Build) -> dict[str, Any]:
    return load_yaml(config_text(build))


def environment(thing: Object) -> dict[str, str]:
    """The flags that the container's environment sets."""
    return {variable['name'].removeprefix('CHORALE_').lower(): variable['value']
            for variable in thing.get('env', []) if variable['name'].startswith('CHORALE_')}


class Settings:
    """A flag's value: of the command line, the environment, the file, or else its default."""

    def __init__(self, build: Build, sources: Sources) -> None:
        self._sources = sources
        self._given = {name: ','.join(value) if isinstance(value, list) else str(value)
                       for name, value in config(build).items()}
        self._given |= environment(container(build.server()))
        self._given |= arguments(build)

    def text(self, flag: str) -> str:
        if flag in self._given:
            return self._given[flag]
        return self._sources.flags[flag].strip('"')

    def number(self, flag: str) -> int:
        return int(self.text(flag))

    def seconds(self, flag: str) -> float:
        written = self.text(flag)
        constructor = re.fullmatch(r'absl::(Seconds|Minutes|Milliseconds)\((\d+)\)', written)
        if constructor is not None:
            return int(constructor[2]) * {'Seconds': 1, 'Minutes': 60, 'Milliseconds': 1e-3}[
                constructor[1]]
        return seconds(written)

    def port(self, flag: str) -> int:
        return int(self.text(flag).rsplit(':', 1)[1])

    def is_on_loopback(self) -> bool:
        """Whether the server can be called from its own pod only."""
        return self.text('listen_address').startswith('127.0.0.1:')

    def host_pools_mib(self) -> dict[str, int]:
        """MiB that the pools may take of the container's memory."""
        pools = {'registration_memory_mib': self.number('registration_memory_mib')}
        if self.text('backend') == 'cuda':
            pools['host_context_pool_mib'] = self.number('host_context_pool_mib')
        else:
            for flag, default in _CPU_POOLS.items():
                pools[flag] = self.number(flag) or default
        return pools
