#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""`tpp schedule`: every form of a schedule is valid and says the same."""

import json
import os
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from pipe_command import check_help, check_words, examples, good, say
from train_run import TPP

OPTIONS = 'stages micro chunks group split two-way format out messages lowered slots tf ti tw p2p help'

# 1F1B on three ranks, written by hand.
TEXT = ('0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n'
        '1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3\n'
        '2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3\n')
MESSAGES = ('0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n'
            '1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n')

WRONG = [
    ('', ['NAME', '1f1b', '--help']),
    ('1f2b', ['1f2b', 'file', 'gpipe, 1f1b, interleaved', 'dualpipev']),
    ('/', ['/', 'directory', 'gpipe']),
    ('1f1b gpipe', ['gpipe', 'stands alone']),
    ('1f1b --stages 0', ['--stages 0', '1 to 1048576']),
    ('1f1b --micro 0', ['--micro 0', '1 to 1048576']),
    ('1f1b --micro 1x', ['--micro 1x', 'whole number']),
    ('1f1b --stage 4 --mico 8', ['--mico', 'did you mean --micro']),
    ('1f1b --chunks 2', ['--chunks = 2', '1f1b', 'has 1']),
    ('zb-v --chunks 3', ['--chunks = 3', 'zb-v', 'has 2']),
    ('gpipe --group 2', ['--group = 2', 'gpipe', 'no groups']),
    ('interleaved --group 9', ['--group = 9', '8']),
    ('1f1b --split', ['--split', '1f1b', 'no overlapped pairs']),
    ('interleaved --stages 1048576 --chunks 2', ['--stages', '--chunks', '1048576']),
    ('1f1b --format png', ['--format png', 'text, csv, json, svg, chrome']),
    ('1f1b --format', ['--format', 'value']),
    ('1f1b -o', ['--out', 'value']),
    ('1f1b -o /does/not/exist/f', ['--out /does/not/exist/f', 'No such file']),
    ('1f1b -x', ['-x', '--help']),
    ('1f1b --slots', ['--slots', '--format csv', 'text']),
    ('1f1b --slots --messages --format csv', ['--slots', '--messages', 'one of the two']),
    ('dualpipe --two-way', ['--two-way', 'CSV']),
    ('1f1b --tf -1', ['--tf -1', 'out of range']),
    ('1f1b --tf nan', ['--tf nan', 'finite number']),
]


def actions(text):
    """[(rank, stage, op, micro)] of the text form."""
    return [(rank, int(stage), op, int(micro)) for rank, line in enumerate(text.splitlines())
            for stage, op, micro in re.findall(r'(\d+)([A-Z](?:[A-Z]*_[A-Z])?)(\d+)', line)]


class Schedule(unittest.TestCase):
    def test_help(self):
        check_help(self, 'schedule', OPTIONS)

    def test_bad_input(self):
        check_words(self, 'schedule', WRONG)

    def test_examples(self):
        with tempfile.TemporaryDirectory() as folder:
            for line in examples('schedule'):
                command = f'{TPP} {line}'.replace('| tpp', f'| {TPP}')
                done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ''), line)
            self.assertEqual(os.listdir(folder), ['interleaved.svg'])

    def test_text(self):
        self.assertEqual(good('schedule 1f1b --stages 3 --micro 4'), TEXT)
        self.assertEqual(good('schedule Schedule1F1B --stages=3 --micro=4'), TEXT)
        self.assertEqual(good('schedule 1f1b --stages 2 --micro 2 --messages'), MESSAGES)
        self.assertEqual(good('schedule 1f1b --stages 2 --micro 2 --lowered'), MESSAGES)
        self.assertEqual(len(good('schedule 1f1b').splitlines()), 4)  # sizes that are not given

    def test_file(self):
        self.assertEqual(good('schedule -', TEXT), TEXT)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'own.txt')
            self.assertEqual(good(f'schedule - -o {path}', TEXT), '')
            with open(path, encoding='utf-8') as file:
                self.assertEqual(file.read(), TEXT)
            self.assertEqual(good(f'schedule {path}'), TEXT)
            self.assertEqual(good(f'schedule {path} --messages').count('SEND_F'), 8)
            for option in ('--stages 3', '--micro 4', '--chunks 1', '--group 1', '--split'):
                done = say(f'schedule {path} {option}')
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, rf'^tpp schedule: {option.split()[0]} belongs to .*{path}.*\n$')

    def test_bad_file(self):
        for text, part in (('0F0 0X0\n', 'X0'), ('0F0 0B0\n0F0 0B0\n', 'stage 0'), ('', '')):
            done = say('schedule -', text)
            self.assertEqual((done.returncode, done.stdout), (1, ''))
            self.assertRegex(done.stderr, '^tpp schedule: -: .*\n$')
            self.assertIn(part, done.stderr)

    def test_csv(self):
        csv = TEXT.replace(' ', ',').replace('\n', '\r\n')
        # bytes, since line ends are part of the form
        done = subprocess.run([TPP, 'schedule', '1f1b', '--stages', '3', '--micro', '4', '--format', 'csv'],
                              capture_output=True, timeout=60, check=True)
        self.assertEqual(done.stdout.decode(), csv)
        self.assertEqual(good('schedule -', csv), TEXT)
        self.assertEqual(good('schedule - --format csv', MESSAGES), MESSAGES.replace(' ', ','))
        slots = good('schedule 1f1b --stages 2 --micro 2 --format csv --slots')
        self.assertEqual(slots, '0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n')
        self.assertEqual(good('schedule -', slots), '0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n')
        for name, option in (('zb-h1', ''), ('zb-v', ''), ('dualpipev', ''), ('dualpipe', '--two-way')):
            for messages in ('', '--messages'):
                text = good(f'schedule {name} --stages 4 --micro 8 {messages}')
                csv = good(f'schedule {name} --stages 4 --micro 8 {messages} --format csv')
                self.assertEqual(good(f'schedule - {option}', csv), text)
                self.assertEqual(good('schedule -', text), text)

    def test_json(self):
        for name, stages, chunks, micro, directions in (('1f1b', 3, 1, 4, 1), ('interleaved', 2, 3, 4, 1),
                                                        ('zb-v', 3, 2, 6, 1), ('dualpipe', 4, 2, 8, 2)):
            sizes = f'{name} --stages {stages} --micro {micro}' + (' --chunks 3' if chunks == 3 else '')
            got = json.loads(good(f'schedule {sizes} --format json'))
            self.assertEqual({key: got[key] for key in ('schema', 'schedule', 'stages', 'chunks', 'micro', 'directions',
                                                        'virtual_stages')},
                             {'schema': 'tpp-schedule/1', 'schedule': name, 'stages': stages, 'chunks': chunks,
                              'micro': micro, 'directions': directions, 'virtual_stages': stages * chunks})
            self.assertEqual(len(got['rank_of']), stages * chunks)
            flat = [(rank, a['stage'], a['op'], a['micro']) for rank, row in enumerate(got['ranks']) for a in row]
            self.assertTrue(all(got['rank_of'][stage] == rank for rank, stage, _, _ in flat))
            text = good(f'schedule {sizes}')
            self.assertEqual(flat, actions(text.split('\n', 1)[1] if text.startswith('directions') else text))
            self.assertEqual(any('fused' in a for row in got['ranks'] for a in row), name == 'dualpipe')

    def test_json_messages(self):
        got = json.loads(good('schedule 1f1b --stages 2 --micro 2 --format json --messages'))
        self.assertEqual([a['op'] for a in got['ranks'][1]],
                         ['RECV_F', 'F', 'B', 'SEND_B', 'RECV_F', 'F', 'B', 'SEND_B'])
        self.assertEqual([a.get('peer') for a in got['ranks'][1]], [0, None, None, 0] * 2)

    def test_pictures(self):
        for name in ('1f1b', 'zb-v', 'dualpipe'):
            svg = good(f'schedule {name} --stages 4 --micro 8 --format svg')
            self.assertTrue(xml.etree.ElementTree.fromstring(svg).tag.endswith('svg'))
            self.assertIn(name, svg)
            events = json.loads(good(f'schedule {name} --stages 4 --micro 8 --format chrome'))
            events = [e for e in (events['traceEvents'] if isinstance(events, dict) else events) if e['ph'] == 'X']
            text = good(f'schedule {name} --stages 4 --micro 8')
            self.assertEqual(len(events), len(re.findall(r'\d[FBIW]\d', text)))
        svg = good('schedule 1f1b --stages 4 --micro 8 --tf 2 --format svg')
        self.assertIn('makespan 44', svg)  # (8 + 4 - 1) x (2 + 1 + 1)


if __name__ == '__main__':
    unittest.main()
