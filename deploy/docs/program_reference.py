"""References of the programs in Markdown, from the output of --help."""

import pathlib
import re
import subprocess

FLAG = re.compile(r'^  --(\w+) \(default "(.*)"\)\n((?:      .*\n)+)', re.MULTILINE)
FEWEST_FLAGS = 30

CONFIGURATION = '''# Configuration

This page lists the flags of `chorale-server --help`. A value comes from the first of these sources
that sets it:

1. the command line: `--max_paths=1000`
2. the environment: `CHORALE_MAX_PATHS=1000`
3. the file that `--config` names: `max_paths: 1000`
4. the default

```yaml
# A flat map of flag names to values. A flag with several values may have a list.
listen_address: 0.0.0.0:50051
tls_certificate: /etc/chorale/server.crt
tls_key: /etc/chorale/server.key
data_dir: /var/lib/chorale
models:
  - /usr/share/chorale/models/default
max_paths: 1000
drain_timeout: 25s
```

`chorale-server --print_config` prints the effective configuration and exits; `--check_config` opens
everything that a start would open, prints all errors, and exits. On SIGHUP, or when the file
changes, the server reloads the file. It applies the log level, `slow_call`, the models and the
limits of requests (`max_context_rows`, `max_features`, `max_categories`, `max_dataset_mib`,
`max_paths`, `max_query_rows`, `max_orders`, `max_values`) without a restart; other flags require a
restart. An invalid file is rejected as a whole, and the log contains the reason. The server also
reloads the contents of the files of certificates, tokens and tenants; changes of their paths
require a restart.

Durations are written as `500ms`, `30s` or `5m`.

## Flags

'''


def help_of(program: pathlib.Path, *command: str) -> str:
    return subprocess.run([program, *command, '--help'], check=True, capture_output=True,
                          text=True).stdout


def configuration_reference(server: pathlib.Path) -> str:
    text = help_of(server)
    flags = FLAG.findall(text)
    listed = len(re.findall(r'^  --', text, re.MULTILINE))
    if len(flags) < FEWEST_FLAGS or len(flags) != listed:
        raise ValueError(f'{len(flags)} flags understood of {listed} in {server} --help')
    out = [CONFIGURATION]
    for name, default, description in flags:
        shown = f'`{default}`' if default else 'empty'
        filled = ' '.join(line.strip() for line in description.splitlines())
        out.append(f'### {name}\n\n{filled}\n\nDefault: {shown}.\n')
    return '\n'.join(out)


def command_line_reference(client: pathlib.Path) -> str:
    text = help_of(client)
    section = re.search(r'^Subcommands:\n((?:  .*\n)+)', text, re.MULTILINE)
    if not section:
        raise ValueError(f'no subcommands in {client} --help')
    out = [f'# Command line\n\n```text\n{text.strip()}\n```\n']
    for command in re.findall(r'^  (\S+)', section.group(1), re.MULTILINE):
        out.append(f'## {command}\n\n```text\n{help_of(client, command).strip()}\n```\n')
    return '\n'.join(out)
