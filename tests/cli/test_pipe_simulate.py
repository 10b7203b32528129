#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""`tpp simulate`: known values of the literature through the command line, and what it prints."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from pipe_command import check_help, check_words, examples, good, result, say
from train_run import SOURCE, TPP

OPTIONS = ('stages micro chunks group split two-way tf ti tw tb fused optimizer costs p2p link bytes bandwidth blocking '
           'barrier paper-edges mem-b mem-w mem-state memory json svg chrome help')

NUMBERS = ('makespan span period work bubble_global bubble_span bubble_global_of_total bubble_global_of_ideal '
           'bubble_span_of_total bubble_span_of_ideal memory_peak').split()
LISTS = 'peak_to_w peak_to_i memory_by_rank work_by_rank start_by_rank end_by_rank'.split()
PARTS = 'forward backward backward_input backward_weight overlapped messages optimizer'.split()

# Sizes, name and options; bubbles (global, span) with tf, ti, tw 1 1 1 and with 1 1.2 0.8; peaks to W of the first
# and the last rank. Computed with an event simulator of its own.
VECTORS = [
    ('4 8', 'gpipe', (9, 9), (9, 9), (8, 8)),
    ('4 8', '1f1b', (9, 9), (9, 9), (4, 1)),
    ('4 8', 'interleaved --chunks 2', (4.5, 4.5), (4.5, 4.5), (5.5, 2.5)),
    ('4 8', 'interleaved --chunks 3', (3, 3), (3, 3), (5, 3)),
    ('4 8', 'bfs --chunks 2', (4.5, None), (4.5, None), (8, 8)),
    ('4 8', 'zb-h1', (3, 3), (4.2, 4.2), (4, 4)),
    ('4 8', 'zb-interleaved', (3, 3), (4.2, 4.2), (4, 4)),
    ('4 8', 'zb-h2', (3, 0), (3, 1.8), (7, 7)),
    ('4 8', 'zb-interleaved --chunks 2', (1.5, None), (2.1, None), (4, 4)),
    ('4 8', 'zb-v', (1.5, 0), (1.8, 1.2), (4, 4)),
    ('4 8', 'dualpipev --split', (1.5, None), (2.1, None), (4.5, 4.5)),
    ('4 8', 'dualpipe --split', (1, None), (1.4, None), (5, 5)),
    ('8 16', 'gpipe', (21, 21), (21, 21), (16, 16)),
    ('8 16', '1f1b', (21, 21), (21, 21), (8, 1)),
    ('8 16', 'interleaved --chunks 2', (10.5, 10.5), (10.5, 10.5), (11.5, 4.5)),
    ('8 16', 'interleaved --chunks 3', (7, 7), (7, 7), (31 / 3, 17 / 3)),
    ('8 16', 'zb-h1', (7, 7), (9.8, 9.8), (8, 8)),
    ('8 16', 'zb-h2', (7, 0), (7, 4.2), (15, 15)),
    ('8 16', 'zb-interleaved --chunks 2', (3.5, None), (4.9, None), (8, 8)),
    ('8 20', 'zb-interleaved --chunks 2', (3.5, None), (4.9, None), (9, 9)),
    ('8 16', 'zb-v', (3.5, 0), (4.2, 2.8), (8, 8)),
    ('8 16', 'dualpipev --split', (3.5, None), (5.1, None), (8.5, 8.5)),
    ('8 16', 'dualpipe --split', (3, None), (4.2, None), (9, 9)),
    ('4 2', 'gpipe', (9, 9), (9, 9), (2, 2)),
    ('4 2', '1f1b', (9, 9), (9, 9), (2, 1)),
    ('4 2', 'bfs --chunks 2', (7.5, None), (7.5, None), (2, 2)),
    ('4 2', 'zb-h1', (5, None), (5.8, None), (2, 2)),
    ('4 2', 'zb-h2', (5, None), (5.8, None), (2, 2)),
    ('4 2', 'zb-interleaved --chunks 2', (3.5, None), (4.3, None), (2, 2)),
    ('4 2', 'zb-v', (5, None), (5.6, None), (1.5, 2)),
]

# Profiled times and bubble rates (of the total, by span) of the zero-bubble paper (Qi et al. 2023): 1F1B, its
# interleaved form with so many chunks, ZB-H1, ZB-H2.
RATES = [
    ('--stages 8 --micro 24 --tf 18.522 --ti 18.086 --tw 9.337 --p2p 0.601', 3,
     (0.2431, 0.1055, 0.1585, 0.1083)),
    ('--stages 8 --micro 32 --tf 18.513 --ti 18.086 --tw 9.331 --p2p 0.626', 3,
     (0.1985, 0.0818, 0.1242, 0.0837)),
    ('--stages 8 --micro 64 --tf 18.546 --ti 18.097 --tw 9.321 --p2p 0.762', 3,
     (0.124, 0.0443, 0.0674, 0.0444)),
    ('--stages 8 --micro 24 --tf 29.718 --ti 29.444 --tw 19.927 --p2p 0.527', 4,
     (0.2347, 0.0808, 0.1323, 0.0698)),
    ('--stages 8 --micro 32 --tf 29.802 --ti 29.428 --tw 19.530 --p2p 0.577', 4,
     (0.1898, 0.0628, 0.1045, 0.0559)),
    ('--stages 8 --micro 64 --tf 29.935 --ti 29.621 --tw 19.388 --p2p 0.535', 4,
     (0.1091, 0.032, 0.0554, 0.0294)),
    ('--stages 16 --micro 48 --tf 11.347 --ti 11.248 --tw 8.132 --p2p 0.377', 3,
     (0.2552, 0.1104, 0.1397, 0.0672)),
    ('--stages 16 --micro 64 --tf 11.307 --ti 11.254 --tw 8.101 --p2p 0.379', 3,
     (0.2082, 0.0852, 0.1088, 0.0516)),
    ('--stages 16 --micro 128 --tf 11.325 --ti 11.308 --tw 8.109 --p2p 0.378', 3,
     (0.1251, 0.0445, 0.0576, 0.0266)),
    ('--stages 32 --micro 96 --tf 10.419 --ti 10.207 --tw 7.715 --p2p 0.408', 2,
     (0.2646, 0.1493, 0.1421, 0.0641)),
    ('--stages 32 --micro 128 --tf 10.408 --ti 10.204 --tw 7.703 --p2p 0.408', 2,
     (0.2168, 0.1164, 0.1106, 0.049)),
    ('--stages 32 --micro 256 --tf 10.402 --ti 10.248 --tw 7.698 --p2p 0.460', 2,
     (0.1352, 0.0624, 0.0594, 0.0257)),
]

WRONG = [
    ('', ['NAME', '--help']),
    ('zigzag', ['zigzag', 'gpipe, 1f1b']),
    ('1f1b --stages 0', ['--stages 0']),
    ('1f1b --chunks 2', ['--chunks = 2']),
    ('1f1b --tf -1', ['--tf -1', '0 to 1e+18']),
    ('1f1b --ti x', ['--ti x', 'finite number']),
    ('1f1b --p2p inf', ['--p2p inf', 'finite number']),
    ('1f1b --bytes 5', ['--bandwidth', '--bytes']),
    ('1f1b --bandwidth 5', ['--bytes', '--bandwidth']),
    ('1f1b --bytes 5 --bandwidth 0', ['--bandwidth 0', 'more than 0']),
    ('1f1b --bytes 5 --bandwidth 1 --link 2', ['--link 2', '--bytes 5', 'one of the two']),
    ('1f1b --mem 5', ['--mem', '--mem-b, --mem-w, --mem-state, --memory']),
    ('1f1b --svg /does/not/exist/s', ['--svg /does/not/exist/s', 'No such file']),
    ('1f1b --chrome /tmp', ['--chrome /tmp', 'directory']),
    ('1f1b --json=1', ['--json', 'no value']),
]
if os.environ.get('TPP_WITH_IO') == '0':
    WRONG += [('1f1b --costs c', ['--costs c', 'without'])]
else:
    WRONG += [('1f1b --costs /does/not/exist/c', ['--costs /does/not/exist/c', 'No such file'])]

# Costs in a file, and what the sentence has to name.
BAD_COSTS = [
    ('', ['JSON', 'line 1']),
    ('{"forward": [1, 2,}', ['JSON', 'line 1']),
    ('[1, 2]', ['no JSON object']),
    ('{"forwards": 1}', ['forwards', 'forward, backward, backward_input']),
    ('{"forward": [1, 2, 3]}', ['forward', '3 numbers', 'accepted: 2']),
    ('{"forward": [1, -2]}', ['forward', '-2', 'from 0 up']),
    ('{"forward": [1, "2"]}', ['forward', '"2"', 'from 0 up']),
    ('{"forward": {"a": 1}}', ['forward', '{"a": 1}', 'from 0 up']),
    ('{"latency": [1]}', ['latency', '[1]', 'from 0 up']),
    ('{"forward": 1, "forward": 1}', ['JSON', 'forward']),
]


class Simulate(unittest.TestCase):
    def near(self, got, want, message=None):
        self.assertAlmostEqual(got, want, delta=1e-9 * max(1, abs(want)), msg=message)

    def test_help(self):
        check_help(self, 'simulate', OPTIONS)

    def test_bad_input(self):
        check_words(self, 'simulate', WRONG)

    def test_vectors(self):
        for sizes, name, equal, unequal, peaks in VECTORS:
            stages, micro = sizes.split()
            for costs, bubbles in (('', equal), (' --ti 1.2 --tw 0.8', unequal)):
                command = f'simulate {name} --stages {stages} --micro {micro}{costs}'
                got = result(command)
                self.near(got['bubble_global'], bubbles[0], command)
                if bubbles[1] is not None:
                    self.near(got['bubble_span'], bubbles[1], command)
                if not costs:
                    self.near(got['peak_to_w'][0], peaks[0], command)
                    self.near(got['peak_to_w'][-1], peaks[1], command)

    def test_published_rates(self):
        for sizes, chunks, rates in RATES:
            for name, rate in zip(('1f1b', f'interleaved --chunks {chunks} --paper-edges', 'zb-h1', 'zb-h2'), rates):
                got = result(f'simulate {name} {sizes}')
                self.assertEqual(round(got['bubble_span_of_total'], 4), rate, (name, sizes))

    def test_overlapped(self):
        for stages, fused, bubble in ((4, 3, 2), (8, 3, 6), (4, 2.5, 1.5), (8, 2.5, 4.5)):
            got = result(f'simulate dualpipe --stages {stages} --micro {2 * stages} --fused {fused}')
            least = min(got['work_by_rank'])
            self.near(got['makespan'] - (least if fused < 3 else got['work']), bubble)
        self.near(result('simulate dualpipe --stages 4 --micro 8')['makespan'], 26)
        self.near(2 * result('simulate dualpipev --stages 4 --micro 8')['makespan'], 54)  # in chunks

    def test_keys(self):
        for name, chunks in (('1f1b', 1), ('zb-v', 2), ('dualpipe', 2)):
            got = result(f'simulate {name} --stages 4 --micro 8 --ti 1.5 --p2p 0.25 --optimizer 2')
            self.assertEqual((got['schema'], got['schedule'], got['stages'], got['chunks'], got['micro']),
                             ('tpp-simulate/1', name, 4, chunks, 8))
            for key in NUMBERS:
                self.assertIsInstance(got[key], (int, float), key)
            for key in LISTS:
                self.assertEqual(len(got[key]), 4, key)
            self.assertEqual(list(got['critical_path']), PARTS)
            self.near(sum(part['time'] for part in got['critical_path'].values()), got['makespan'])
            self.near(got['bubble_global'], got['makespan'] - min(got['work_by_rank']))
            spans = [end - start for start, end in zip(got['start_by_rank'], got['end_by_rank'])]
            self.near(got['span'], max(spans))
            self.near(got['bubble_span'], max(span - work for span, work in zip(spans, got['work_by_rank'])))
            self.near(got['bubble_global_of_total'], got['bubble_global'] / got['makespan'])
            self.near(got['bubble_global_of_ideal'], got['bubble_global'] / got['work'])
            self.near(got['bubble_span_of_total'], got['bubble_span'] / got['span'])
            self.near(got['memory_peak'], max(got['memory_by_rank']))
            self.assertLessEqual(max(got['peak_to_i']), max(got['peak_to_w']))

    def test_costs_of_chunks(self):
        """Costs are those of all chunks of a rank; of two directions each chunk is a full stage."""
        for name in ('1f1b', 'interleaved --chunks 4', 'zb-v', 'dualpipe', 'dualpipev'):
            got = result(f'simulate {name} --stages 4 --micro 8 --tf 3 --ti 5 --tw 7 --mem-b 10 --optimizer 0.5')
            per_rank = 2 if name == 'dualpipe' else 1
            for work in got['work_by_rank']:
                self.near(work, 8 * 15 + 0.5 * per_rank)
            for memory, peak in zip(got['memory_by_rank'], got['peak_to_w']):
                self.near(memory, 10 * peak)

    def test_messages(self):
        base = 'simulate gpipe --stages 4 --micro 8'
        self.near(result(base + ' --p2p 0.5')['makespan'], 33 + 2 * 3 * 0.5)
        self.near(result('simulate 1f1b --stages 4 --micro 16 --p2p 1')['bubble_global'], 9 + 28)
        link = result(base + ' --link 0.25')
        self.assertEqual(link, result(base + ' --bytes 4 --bandwidth 16'))
        self.near(link['makespan'], 33 + 2 * 3 * 0.25)
        self.near(result(base + ' --link 0.25 --blocking')['makespan'], 33 + 2 * 0.25 * (8 + 2))

    def test_memory(self):
        got = result('simulate 1f1b --stages 2 --micro 4 --memory 8 --mem-state 100')
        self.assertEqual(got['memory_by_rank'], [116, 108])
        self.assertEqual(got, result('simulate 1f1b --stages 2 --micro 4 --mem-b 8 --mem-w 3 --mem-state 100'))
        text = '0F0 0F1 0I0 0I1 0W0 0W1\n'
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 's')
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            got = result(f'simulate {path} --mem-b 8 --mem-w 3')
            self.assertEqual((got['schedule'], got['stages'], got['micro']), (path, 1, 2))
            self.assertEqual((got['memory_peak'], got['peak_to_w'], got['peak_to_i']), (16, [2], [2]))
            self.assertEqual(result(f'simulate {path} --mem-b 8 --mem-w 30')['memory_peak'], 60)

    def test_barrier(self):
        free = result('simulate 1f1b --stages 4 --micro 8 --optimizer 1')
        self.assertEqual((free['makespan'], free['period'], free['span']), (34, 34, 34))
        held = result('simulate 1f1b --stages 4 --micro 8 --optimizer 1 --barrier')
        self.assertEqual((held['makespan'], held['end_by_rank']), (34, [34] * 4))
        self.assertEqual((held['bubble_span'], free['bubble_span']), (9, 9))

    @unittest.skipIf(os.environ.get('TPP_WITH_IO') == '0', 'needs jansson')
    def test_costs_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'c.json')

            def simulate(text, options='', name='1f1b'):
                with open(path, 'w', encoding='utf-8') as file:
                    file.write(text if isinstance(text, str) else json.dumps(text))
                return say(f'simulate {name} --stages 2 --micro 4 --json --costs {path} {options}')

            def numbers(*given):
                done = simulate(*given)
                self.assertEqual(done.returncode, 0, done.stderr)
                return json.loads(done.stdout)
            self.assertEqual(numbers({'forward': [1, 3], 'backward_input': 2})['work_by_rank'], [16, 24])
            self.assertEqual(numbers({'forward': [1, 3], 'backward': [2, 4]}, '--ti 50')['work_by_rank'], [12, 28])
            self.assertEqual(numbers({'backward': 4}, '--ti 50', 'zb-h1')['work_by_rank'], [20, 20])  # halves of it
            self.assertEqual(numbers({'forward': 1}, '--tb 5')['work_by_rank'], [24, 24])
            self.assertEqual(numbers({'latency': 2})['makespan'], numbers({'edge_latency': [2, 9]})['makespan'])
            self.assertEqual(numbers({'latency': 2}), numbers({}, '--p2p 2'))
            self.assertEqual(numbers({'memory': [4, 2], 'memory_state': [10, 0]})['memory_by_rank'], [18, 2])
            self.assertEqual(numbers({'send_forward': 1, 'send_backward': [0, 1]}), numbers({}, '--link 1'))
            self.assertEqual(numbers({'optimizer': [1, 2]})['work_by_rank'], [13, 14])
            for text, parts in BAD_COSTS:
                done = simulate(text)
                self.assertEqual((done.returncode, done.stdout), (1, ''), text)
                self.assertRegex(done.stderr, f'^tpp simulate: --costs {path}.*\n$')
                for part in parts:
                    self.assertIn(part, done.stderr)

    def test_wrong_schedule(self):
        for text, part in (('0F0 0F1 0B0\n', 'B'), ('0B0 0F0\n', 'F'), ('1F0 0F0 0B0 1B0\n', '')):
            done = say('simulate -', text)
            self.assertEqual((done.returncode, done.stdout), (1, ''), text)
            self.assertRegex(done.stderr, '^tpp simulate: -: .*\n$')
            self.assertIn(part, done.stderr)

    def test_report(self):
        text = good('simulate 1f1b --stages 4 --micro 8 --p2p 0.5')
        for part in ('1f1b: 4 ranks, 8 micro-batches', 'makespan', 'bubble, global', 'bubble, span', 'of the total',
                     'of the ideal', 'critical path', 'messages', 'memory'):
            self.assertIn(part, text)
        self.assertEqual(len(re.findall(r'^ +\d ', text, re.M)), 4)

    def test_examples(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'costs.json'), 'w', encoding='utf-8') as file:
                file.write('{"forward": [1, 1.5], "backward_input": [1, 1.4], "backward_weight": 1}')
            for line in examples('simulate'):
                if '--costs' not in line or os.environ.get('TPP_WITH_IO') != '0':
                    done = subprocess.run([TPP, *line.split()], cwd=folder, capture_output=True, text=True, timeout=60,
                                          check=False)
                    self.assertEqual((done.returncode, done.stderr), (0, ''), line)
            self.assertEqual(sorted(os.listdir(folder)), ['costs.json', 'dualpipe.svg'])

    def test_readme(self):
        """The commands that README shows run, and print what it shows."""
        with open(os.path.join(SOURCE, 'README.md'), encoding='utf-8') as file:
            section = file.read().split('## Schedules from the command line')[1].split('\n## ')[0]
        printed = ''
        with tempfile.TemporaryDirectory() as folder:
            for line in re.findall(r'^build/bin/tpp (.*)$', section, re.M):
                done = subprocess.run([TPP, *shlex.split(line, comments=True)], cwd=folder, capture_output=True,
                                      text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ''), line)
                printed += done.stdout
            self.assertEqual(sorted(os.listdir(folder)), ['best.svg', 'mine.txt'])
        shown = re.findall(r'^  \S.*$', section, re.M)
        self.assertEqual(len(shown), 5)
        for line in shown:
            self.assertIn(line + '\n', printed)

    def test_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            svg, chrome = os.path.join(folder, 'a.svg'), os.path.join(folder, 'a.json')
            got = result(f'simulate zb-v --stages 4 --micro 8 --svg {svg} --chrome {chrome}')
            self.assertTrue(xml.etree.ElementTree.parse(svg).getroot().tag.endswith('svg'))
            with open(chrome, encoding='utf-8') as file:
                events = json.load(file)
            events = [e for e in (events['traceEvents'] if isinstance(events, dict) else events) if e['ph'] == 'X']
            self.assertEqual(len(events), 4 * 2 * 8 * 3)
            self.near(max(e['ts'] + e['dur'] for e in events), 1000 * got['makespan'])  # microseconds


if __name__ == '__main__':
    unittest.main()
