#!/usr/bin/env python3
"""Makes penguins.csv and penguins_heldout.csv from the published penguins.csv.

Usage: make_penguins.py PUBLISHED_PENGUINS_CSV [OUTPUT_FOLDER]

Rows without a body mass are left out, because the target must be known. Of the others, in the
published order, every fourteenth row is held out. Cells are copied as they are, except that a
missing cell, "NA" in the published file, becomes an empty one.
"""

import csv
import pathlib
import sys

TARGET = 'body_mass_g'
EVERY = 14


def main():
    published = pathlib.Path(sys.argv[1])
    output = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parent)
    with published.open(newline='', encoding='utf-8') as file:
        reader = csv.DictReader(file)
        rows = [{name: '' if cell == 'NA' else cell for name, cell in row.items()}
                for row in reader]
    rows = [row for row in rows if row[TARGET]]
    held_out = rows[EVERY - 1::EVERY]
    context = [row for number, row in enumerate(rows) if number % EVERY != EVERY - 1]
    for name, part in (('penguins.csv', context), ('penguins_heldout.csv', held_out)):
        with (output / name).open('w', newline='', encoding='utf-8') as file:
            writer = csv.DictWriter(file, reader.fieldnames, lineterminator='\n')
            writer.writeheader()
            writer.writerows(part)
        print(f'{name}: {len(part)} rows')


if __name__ == '__main__':
    main()
