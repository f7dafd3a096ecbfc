"""Tests answer_digests.py with stubs for the server and the client."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name('answer_digests.py')
SERVER = '''
for flag in "$@"; do case "$flag" in --port_file=*) echo 7 > "${flag#*=}" ;; esac; done
echo "info serving models=2"
exec sleep 60'''
# Says what it was asked, but for the folder of the tables.
CLIENT = 'echo "$1 $2 $3 $4 ${5##*/} $6 $7"'


class AnswerDigestsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server = self.program('server', SERVER)
        self.client = self.program('client', CLIENT)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(f'#!/bin/sh\n{text}\n', encoding='utf-8')
        path.chmod(0o700)
        return os.fspath(path)

    def run_script(self, server, *options):
        return subprocess.run(
            [sys.executable, SCRIPT, '--server', server, '--client', self.client, '--few',
             '--models', 'models/one', 'models/two', *options],
            capture_output=True, text=True, check=False)

    def test_prints_a_digest_for_each_command_model_and_table(self):
        run = self.run_script(self.server)
        self.assertEqual((run.returncode, run.stderr), (0, ''))
        lines = run.stdout.splitlines()
        self.assertEqual(len(lines), 8)
        said = b'--server 127.0.0.1:7 predict two-small small_rows.csv --quantiles 0.1,0.5\n'
        self.assertIn(f'{hashlib.sha256(said).hexdigest()[:16]} predict two small', lines)

    def test_equal_builds_do_not_differ(self):
        run = self.run_script(self.server, '--against', self.server, self.client)
        self.assertEqual((run.returncode, run.stdout), (0, ''))
        self.assertEqual(run.stderr, '0 of 8 answers differ\n')

    def test_names_the_answers_that_differ(self):
        other = self.program('other', f'[ "$3" = predict ] && echo other; {CLIENT}')
        run = self.run_script(self.server, '--against', self.server, other)
        self.assertEqual(run.returncode, 1)
        self.assertEqual([line.split(',')[0].split(' ', 1)[1] for line in run.stdout.splitlines()],
                         ['predict one small', 'predict two small'])
        self.assertEqual(run.stderr, '2 of 8 answers differ\n')

    def test_a_server_that_ends_is_shown_with_its_log(self):
        run = self.run_script(self.program('broken', 'echo no such model; exit 1'))
        self.assertEqual(run.returncode, 1)
        self.assertIn('no such model', run.stderr)


if __name__ == '__main__':
    unittest.main()
