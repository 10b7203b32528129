#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""`tpp check`: every broken schedule is told, with the rule that it breaks; compared with a check written here."""

import json
import os
import random
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from pipe_command import check_help, check_words, examples, good, say
from train_run import TPP

OPTIONS = 'stages micro chunks group split two-way channel capacity json svg help'
RULES = 'form placement complete order messages deadlock'.split()

WRONG = [
    ('', ['NAME', '--help']),
    ('zigzag', ['zigzag', 'file', 'gpipe, 1f1b']),
    ('1f1b --chunks 2', ['--chunks = 2', '1f1b']),
    ('1f1b --channel pigeon', ['--channel pigeon', 'posted, rendezvous, fifo-pair, fifo-kind, tagged']),
    ('1f1b --capacity 1', ['--capacity 1', 'posted', 'fifo-pair, fifo-kind, tagged']),
    ('1f1b --channel rendezvous --capacity 0', ['--capacity 0', 'rendezvous', 'fifo-pair']),
    ('1f1b --channel tagged --capacity -1', ['--capacity -1', 'out of range']),
    ('1f1b --svg /does/not/exist/s', ['--svg /does/not/exist/s', 'No such file']),
]

# Messages that one queue per pair of ranks, and one per pair and kind, has to hold at least; None: no number suffices,
# since they are received in another order than they are sent. For "receive, compute, send", from a simulator.
CAPACITIES = [
    ('gpipe --stages 4 --micro 8', 0, 0),
    ('1f1b --stages 4 --micro 8', 1, 1),
    ('1f1b --stages 2 --micro 8', 1, 1),
    ('zb-h1 --stages 4 --micro 8', 1, 1),
    ('zb-h2 --stages 8 --micro 16', 1, 1),
    ('interleaved --chunks 2 --stages 4 --micro 8', 1, 1),
    ('interleaved --chunks 2 --stages 2 --micro 8', 2, 1),
    ('zb-interleaved --chunks 2 --stages 2 --micro 8', None, 1),
    ('zb-interleaved --chunks 2 --stages 4 --micro 8', 2, 2),
    ('zb-interleaved --chunks 2 --stages 8 --micro 16', 4, 4),
    ('zb-v --stages 4 --micro 8', None, 1),
    ('dualpipev --split --stages 2 --micro 8', 2, 1),
    ('dualpipev --split --stages 4 --micro 8', None, 1),
    ('dualpipe --split --stages 4 --micro 8', 2, 1),
    ('dualpipe --split --stages 8 --micro 16', None, 1),
]

# A schedule; the rule that it breaks, and what the reason has to name.
BROKEN = [
    ('0F0 0X0\n', 'form', ['line 1', 'X0']),
    ('0F0,0B0 rest\n,\n', 'form', ['row 1', 'rest']),
    ('0F0 0B0\n0F1\n', 'placement', ['line 2', 'stage 0', 'rank 0']),
    ('0F0 2F0 2B0 0B0\n', 'placement', ['stage 1']),
    ('0F0 0F1 0B0 0B1\n1F0 1B0 1F1\n', 'complete', ['1B1', 'missing', 'rank 1']),
    ('0F0 0F1 0B0 0B1 0B1\n1F0 1B0 1F1 1B1\n', 'complete', ['0B1', 'doubled', 'rank 0']),
    ('0F0 0B0 0I0\n', 'complete', ['0']),
    ('0F0 0I0\n', 'complete', ['0W0', 'missing']),
    ('0B0 0F0\n', 'order', ['0B0', 'before', '0F0']),
    ('0F0 0W0 0I0\n', 'order', ['0W0', 'rank 0']),
    ('0F0 2F0 2B0 0B0\n3F0 1F0 1B0 3B0\n', 'order', ['rank 0 waits', 'rank 1 waits']),
    ('0F0 0SEND_F0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0\n', 'messages', ['0RECV_B0', 'missing']),
    ('0F0 0SEND_F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0\n', 'messages', ['0SEND_F0', 'doubled']),
    ('0F0 0RECV_B0 0SEND_F0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0\n', 'deadlock', ['rank 0 waits', 'rank 1 waits']),
]


def check(text, options=''):
    done = say('check - --json ' + options, text)
    assert done.stderr == '', (text, done.stderr)
    got = json.loads(done.stdout)
    assert done.returncode == (0 if got['right'] else 1), (text, done.returncode)
    return got


def actions(text):
    """[[(stage, op, micro)] by rank] of compute actions."""
    return [[(int(word[:word.index(op)]), op, int(word[word.index(op) + 1:])) for word in line.split()
             for op in 'FBIW' if op in word] for line in text.splitlines()]


def runs(ranks):
    """Does every stage have every micro-batch once, and can all of it be done in the order given?"""
    flat = [a for row in ranks for a in row]
    homes = {}
    for rank, row in enumerate(ranks):
        for stage, _, _ in row:
            homes.setdefault(stage, set()).add(rank)
    depth, micros = 1 + max(s for s, _, _ in flat), 1 + max(m for _, _, m in flat)
    if sorted(homes) != list(range(depth)) or any(len(h) > 1 for h in homes.values()):
        return False
    for stage in range(depth):
        for micro in range(micros):
            ops = sorted(op for s, op, m in flat if (s, m) == (stage, micro))
            if ops not in (['B', 'F'], ['F', 'I', 'W']):
                return False
    done, at, moved = set(), [0] * len(ranks), True
    while moved:
        moved = False
        for rank, row in enumerate(ranks):
            while at[rank] < len(row):
                s, op, m = row[at[rank]]
                backward = {(s + 1, 'B', m), (s + 1, 'I', m)} & done or s + 1 == depth
                if not {'F': s == 0 or (s - 1, 'F', m) in done, 'W': (s, 'I', m) in done}.get(
                        op, (s, 'F', m) in done and backward):
                    break
                done.add((s, op, m))
                at[rank], moved = at[rank] + 1, True
    return len(done) == len(flat)


def mutate(draw, ranks):
    """Delete, double, swap or retarget an action."""
    ranks = [list(row) for row in ranks]
    row = draw.choice([row for row in ranks if len(row) > 1])
    i = draw.randrange(len(row))
    kind = draw.choice(['delete', 'double', 'swap', 'near', 'stage', 'op', 'micro'])
    stage, op, micro = row[i]
    if kind == 'delete':
        del row[i]
    elif kind == 'double':
        row.insert(draw.randrange(len(row)), row[i])
    elif kind in ('swap', 'near'):
        j = draw.randrange(len(row)) if kind == 'swap' else (i + 1) % len(row)
        row[i], row[j] = row[j], row[i]
    elif kind == 'stage':
        row[i] = (draw.choice([s for s, _, _ in row]), op, micro)
    elif kind == 'op':
        row[i] = (stage, draw.choice('FBIW'), micro)
    else:
        row[i] = (stage, op, draw.choice([m for _, _, m in row]))
    return ranks


def svg_text(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    assert root.tag.endswith('svg')
    return ' '.join(root.itertext())


class Check(unittest.TestCase):
    def test_help(self):
        check_help(self, 'check', OPTIONS)

    def test_bad_input(self):
        check_words(self, 'check', WRONG)

    def test_right(self):
        for name in ('gpipe', '1f1b', 'interleaved --chunks 2', 'bfs --chunks 2', 'eager-1f1b', 'zb-h1', 'zb-h2',
                     'zb-interleaved --chunks 2', 'zb-v', 'v-half', 'v-min', 'v-1f1b', 'dualpipe', 'dualpipev',
                     'forward-only'):
            for messages in ('', '--messages'):
                text = good(f'schedule {name} --stages 4 --micro 8 {messages}')
                got = check(text)
                self.assertEqual((got['right'], got['broken'], got['reason'], got['channel']),
                                 (True, None, None, 'posted'), (name, got))
                self.assertEqual(got['rules'], dict.fromkeys(RULES, True))
                self.assertEqual((got['schema'], got['stages'], got['micro']), ('tpp-check/1', 4, 8))

    def test_rendezvous(self):
        """Sends that wait for their receive: of these only GPipe and one direction end."""
        for name, right in (('gpipe', True), ('forward-only', True), ('1f1b', False), ('zb-h1', False)):
            got = check(good(f'schedule {name} --stages 4 --micro 8'), '--channel rendezvous')
            self.assertEqual((got['right'], got['broken']), (right, None if right else 'deadlock'), name)
            self.assertEqual((got['channel'], got['capacity']), ('rendezvous', None))
            self.assertEqual(bool(got['wait_cycle']), not right)

    def test_capacities(self):
        for name, pair, kind in CAPACITIES:
            got = json.loads(good(f'check {name} --json'))
            self.assertEqual((got['capacities']['fifo_pair'], got['capacities']['fifo_kind']), (pair, kind), name)
            for channel, least in (('fifo-pair', pair), ('fifo-kind', kind)):
                done = say(f'check {name} --json --channel {channel}')
                self.assertEqual(json.loads(done.stdout)['capacity'], least)
                self.assertEqual(done.returncode, 0 if least is not None else 1)
                for capacity in range(4):
                    done = say(f'check {name} --channel {channel} --capacity {capacity}')
                    self.assertEqual(done.returncode, 1 if least is None or capacity < least else 0, (name, capacity))

    def test_wait_cycle(self):
        """Who waits for whom, as data: each for the next, and the last for the first."""
        got = check(good('schedule 1f1b --stages 4 --micro 8'), '--channel rendezvous')
        cycle = got['wait_cycle']
        self.assertGreaterEqual(len(cycle), 2)
        for wait, following in zip(cycle, cycle[1:] + cycle[:1]):
            self.assertEqual(list(wait), ['rank', 'peer', 'at', 'reason', 'until'])
            self.assertEqual(wait['peer'], following['rank'])
            self.assertIn(wait['reason'], ('message', 'receiver', 'channel', 'slot'))
            self.assertIn(f'rank {wait["rank"]} waits at {wait["at"]} for rank {wait["peer"]}', got['reason'])
        self.assertEqual(check(BROKEN[-1][0])['wait_cycle'], [
            {'rank': 0, 'peer': 1, 'at': '0RECV_B0', 'reason': 'message', 'until': '1SEND_B0'},
            {'rank': 1, 'peer': 0, 'at': '1RECV_F0', 'reason': 'message', 'until': '0SEND_F0'}])

    def test_peaks(self):
        for name, to_w, to_i in (('1f1b', [4, 3, 2, 1], [4, 3, 2, 1]), ('zb-h1', [4, 4, 4, 4], [4, 3, 2, 1]),
                                 ('interleaved --chunks 2', [5.5, 4.5, 3.5, 2.5], [5.5, 4.5, 3.5, 2.5]),
                                 ('dualpipe', [5] * 4, [5] * 4)):
            got = json.loads(good(f'check {name} --stages 4 --micro 8 --json'))
            self.assertEqual((got['peak_to_w'], got['peak_to_i']), (to_w, to_i), name)

    def test_broken(self):
        for text, rule, parts in BROKEN:
            with self.subTest(text):
                got = check(text)
                self.assertEqual(got['broken'], rule, got)
                at = RULES.index(rule)
                self.assertEqual(list(got['rules'].values()), [True] * at + [False] + [None] * (5 - at))
                for part in parts:
                    self.assertIn(part, got['reason'])
                done = say('check -', text)
                self.assertEqual((done.returncode, done.stderr), (1, ''))
                self.assertRegex(done.stdout, rf'^-.*: WRONG\n(.*\n)+  {rule} +WRONG ')
                self.assertIn(got['reason'], done.stdout)

    def test_mutations(self):
        draw = random.Random(4)
        seen = {True: 0, False: 0}
        for name in ('1f1b --stages 3 --micro 4', 'zb-h1 --stages 3 --micro 3', 'zb-v --stages 2 --micro 3',
                     'interleaved --chunks 2 --stages 2 --micro 3'):
            whole = actions(good('schedule ' + name))
            self.assertTrue(runs(whole))
            for _ in range(100):
                ranks = mutate(draw, whole)
                text = ''.join(' '.join(f'{s}{op}{m}' for s, op, m in row) + '\n' for row in ranks)
                got = check(text)
                self.assertEqual(got['right'], runs(ranks), (text, got['reason']))
                seen[got['right']] += 1
        self.assertGreater(seen[True], 10)
        self.assertGreater(seen[False], 200)

    def test_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 's.svg')
            good(f'check zb-h1 --svg {path}')
            self.assertIn('zb-h1', svg_text(path))
            for text, options in ((BROKEN[-1][0], ''), ('0F0 2F0 2B0 0B0\n3F0 1F0 1B0 3B0\n', ''),
                                  (good('schedule 1f1b'), '--channel rendezvous')):
                done = say(f'check - --svg {path} --json {options}', text)
                self.assertEqual((done.returncode, done.stderr), (1, ''))
                drawn = svg_text(path)
                for wait in json.loads(done.stdout)['wait_cycle']:
                    self.assertIn(wait['at'], drawn)
            os.remove(path)
            done = say(f'check - --svg {path}', '0F0\n0B0\n')
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f'^tpp check: --svg {path} is not written.*\n$')
            self.assertEqual(os.listdir(folder), [])

    def test_examples(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'mine.txt'), 'w', encoding='utf-8') as file:
                file.write(good('schedule gpipe'))
            for line in examples('check'):  # the picture of a right schedule
                done = subprocess.run(f'{TPP} {line}'.replace('| tpp', f'| {TPP}'), shell=True, cwd=folder,
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ''), line)


if __name__ == '__main__':
    unittest.main()
