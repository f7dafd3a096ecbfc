#!/usr/bin/env python3
"""Finds phrases that docs/style_guide.md bans, in prose: what is in code font, in code blocks or in
comments of Markdown is not looked at.

Usage: check_words.py [FILE...]        without files: every page of the repository but the guide
Prints a line for each find, and ends with status 1 if there are any.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / 'docs/style_guide.md'


def banned_phrases(guide: str) -> dict[str, str]:
    """Phrases, and what to write instead, from the last table of the guide."""
    section = guide.partition('## Banned phrases')[2]
    phrases = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if len(cells) != 2 or cells[0] in ('phrase', '---') or not cells[0]:
            continue
        for phrase in cells[0].split(', '):
            phrases[phrase] = cells[1]
    return phrases


def without_code(text: str) -> str:
    """The text with spaces in place of code, so that lines stay where they are."""
    def blank(match: re.Match[str]) -> str:
        return re.sub(r'[^\n]', ' ', match.group(0))

    for pattern in (r'<!--.*?-->', r'^```.*?^```', r'`[^`\n]+`'):
        text = re.sub(pattern, blank, text, flags=re.DOTALL | re.MULTILINE)
    return text


def finds(text: str, phrases: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Lines (from 1) and phrases. A phrase may continue on the next line."""
    prose = without_code(text)
    for phrase in phrases:
        words = r'\s+'.join(map(re.escape, phrase.split()))
        for match in re.finditer(rf'\b{words}\b', prose, re.IGNORECASE):
            yield prose.count('\n', 0, match.start()) + 1, phrase


def pages() -> list[pathlib.Path]:
    """Every page of the repository except the guide, which quotes the phrases."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        # Build folders, environments and caches may contain the pages of other projects.
        folders[:] = [name for name in folders
                      if name == '.github' or not name.startswith(('.', 'build'))]
        found += [pathlib.Path(folder, name) for name in files if name.endswith('.md')]
    return sorted(set(found) - {GUIDE})


def main(arguments: list[str]) -> int:
    phrases = banned_phrases(GUIDE.read_text(encoding='utf-8'))
    files = [pathlib.Path(name) for name in arguments] or pages()
    found = 0
    for file in files:
        for line, phrase in sorted(finds(file.read_text(encoding='utf-8'), phrases)):
            print(f'{file}:{line}: "{phrase}": {phrases[phrase]}')
            found += 1
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
