#!/usr/bin/env python3
"""Creates the manual page of a program from its --help.

    deploy/make_man_page.py --section N --output FOLDER PROGRAM

writes FOLDER/NAME.N.gz, with a section for each subcommand. The output is reproducible:
SOURCE_DATE_EPOCH is the date of the page.
"""

import argparse
import datetime
import gzip
import os
import pathlib
import re
import subprocess
import sys

FLAG = re.compile(r'^  (--\S+ \(default ".*"\))$')  # of the server; then its description


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def escape(line: str) -> str:
    text = line.replace('\\', r'\e').replace('-', r'\-')
    # A dot or an apostrophe at the start of a line would be a request.
    return r'\&' + text if text.startswith(('.', "'")) else text


def paragraphs(help_text: str) -> list[str]:
    """Formats flags as tagged paragraphs, which are filled, and other lines verbatim."""
    out: list[str] = []
    lines = help_text.strip().splitlines()
    verbatim: list[str] = []

    def flush() -> None:
        if any(verbatim):
            out.extend(['.nf', *map(escape, verbatim), '.fi'])
        verbatim.clear()

    while lines:
        line = lines.pop(0)
        flag = FLAG.match(line)
        if not flag:
            verbatim.append(line)
            continue
        flush()
        out.extend(['.TP', r'\fB' + escape(flag.group(1)) + r'\fR'])
        while lines and lines[0].startswith('      '):
            out.append(escape(lines.pop(0).strip()))
    flush()
    return out


def subcommands(help_text: str) -> list[str]:
    section = re.search(r'^Subcommands:\n((?:  .*\n)+)', help_text, re.MULTILINE)
    return re.findall(r'^  (\S+)', section.group(1), re.MULTILINE) if section else []


def first_sentence(help_text: str) -> str:
    line = help_text.strip().splitlines()[0]
    return line.split(': ', 1)[-1].rstrip('.')


def page(program: str, section: str) -> str:
    name = pathlib.Path(program).name
    help_text = output_of(program, '--help')
    version = output_of(program, '--version').split()[-1]
    date = datetime.datetime.fromtimestamp(int(os.environ.get('SOURCE_DATE_EPOCH', '0')),
                                           datetime.timezone.utc).strftime('%Y-%m-%d')
    out = [f'.TH {name.upper()} {section} {date} "Chorale {version}"', '.SH NAME',
           escape(f'{name} - {first_sentence(help_text)}'), '.SH DESCRIPTION',
           *paragraphs(help_text)]
    for command in subcommands(help_text):
        out += [f'.SH {name.upper()} {command.upper()}',
                *paragraphs(output_of(program, command, '--help'))]
    return '\n'.join(out) + '\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--section', required=True)
    parser.add_argument('--output', type=pathlib.Path, required=True)
    parser.add_argument('program')
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    name = f'{pathlib.Path(options.program).name}.{options.section}.gz'
    text = page(options.program, options.section).encode()
    (options.output / name).write_bytes(gzip.compress(text, mtime=0))
    return 0


if __name__ == '__main__':
    sys.exit(main())
