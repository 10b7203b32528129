#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""The orders of pipeline schedules from their definitions in words, not from the library.

With a folder as its argument it writes the files that tests/data/schedules/ holds.
"""

import os
import sys


def gpipe(p, m):
    return [[f'{r}F{i}' for i in range(m)] + [f'{r}B{i}' for i in range(m)] for r in range(p)]


def one_f_one_b(p, m):
    """As PyTorch's Schedule1F1B: p - r forwards, then a backward and a forward in turn."""
    ranks = []
    for r in range(p):
        forwards = [f'{r}F{i}' for i in range(m)]
        backwards = [f'{r}B{i}' for i in range(m)]
        line = forwards[:p - r]
        rest = forwards[p - r:]
        while backwards:
            line.append(backwards.pop(0))
            if rest:
                line.append(rest.pop(0))
        ranks.append(line)
    return ranks


def turns(sizes, v):
    """(chunk, micro-batch) of the k-th forward of a rank, written out group by group."""
    table, first = [], 0
    for size in sizes:
        for chunk in range(v):
            table += [(chunk, first + i) for i in range(size)]
        first += size
    return table


def interleaved(p, v, m, g=None):
    """As Megatron-LM's interleaved 1F1B; without g, m is dealt evenly to max(1, m div p) groups."""
    if g:
        sizes = [min(g, m - i) for i in range(0, m, g)]
    else:
        rounds = max(1, m // p)
        sizes = [len(range(i, m, rounds)) for i in range(rounds)]
    table = turns(sizes, v)
    ranks = []
    for r in range(p):
        forwards = [f'{c * p + r}F{i}' for c, i in table]
        backwards = [f'{(v - 1 - c) * p + r}B{i}' for c, i in table]
        warmup = min((p - r - 1) * 2 + (v - 1) * sizes[0], len(table))
        line, forwards = forwards[:warmup], forwards[warmup:]
        for backward in backwards:
            line += forwards[:1] + [backward]
            forwards = forwards[1:]
        ranks.append(line)
    return ranks


def bfs(p, v, m):
    """Lamy-Poirier's looped breadth-first: chunk after chunk, backwards too in rising order."""
    ranks = []
    for r in range(p):
        stages = range(r, p * v, p)
        ranks.append([f'{s}F{i}' for s in stages for i in range(m)] +
                     [f'{s}B{i}' for s in reversed(stages) for i in range(m)])
    return ranks


def eager(p, m):
    """As Alpa's overlap-friendly schedule: 2 (p - r) - 1 forwards, then a backward and a forward."""
    ranks = []
    for r in range(p):
        first = min(2 * (p - r) - 1, m)
        line = [f'{r}F{i}' for i in range(first)]
        for i in range(m):
            line.append(f'{r}B{i}')
            if first + i < m:
                line.append(f'{r}F{first + i}')
        ranks.append(line)
    return ranks


def forward_only(p, v, m):
    rounds = max(1, m // p)
    sizes = [len(range(i, m, rounds)) for i in range(rounds)]
    return [[f'{c * p + r}F{i}' for c, i in turns(sizes, v)] for r in range(p)]


def zero_bubble(p, v, m, reach):
    """As PyTorch's ScheduleInterleavedZeroBubble; with v = 1 ZB-H1, with reach 2 ZB-H2."""
    rounds = max(1, m // p)
    sizes = [len(range(i, m, rounds)) for i in range(rounds)]
    table = turns(sizes, v)
    ranks = []
    for r in range(p):
        forwards = [f'{c * p + r}F{i}' for c, i in table]
        inputs = [f'{(v - 1 - c) * p + r}I{i}' for c, i in table]
        weights = [name.replace('I', 'W') for name in inputs]
        warmup = (v - 1) * sizes[0] + reach * (p - 1 - r)
        line, forwards = forwards[:warmup], forwards[warmup:]
        for k, name in enumerate(inputs):
            line += forwards[:1] + [name]
            forwards = forwards[1:]
            if k >= reach * r:
                line.append(weights.pop(0))
        ranks.append(line + weights)
    return ranks


def text(ranks):
    return ''.join(' '.join(line) + '\n' for line in ranks)


FILES = {
    'gpipe_p4_m8.txt': gpipe(4, 8),
    '1f1b_p4_m8.txt': one_f_one_b(4, 8),
    'interleaved_p2_v2_m4.txt': interleaved(2, 2, 4),
    'interleaved_p4_v2_m8.txt': interleaved(4, 2, 8),
    'interleaved_p3_v2_m7.txt': interleaved(3, 2, 7),
    'interleaved_p2_v2_m5_g3.txt': interleaved(2, 2, 5, 3),
    'bfs_p4_v2_m8.txt': bfs(4, 2, 8),
    'bfs_p3_v3_m2.txt': bfs(3, 3, 2),
    'eager_1f1b_p4_m8.txt': eager(4, 8),
    'forward_only_p3_v2_m7.txt': forward_only(3, 2, 7),
    'zb_h1_p4_m8.txt': zero_bubble(4, 1, 8, 1),
    'zb_h1_p4_m2.txt': zero_bubble(4, 1, 2, 1),
    'zb_h2_p4_m8.txt': zero_bubble(4, 1, 8, 2),
    'zb_interleaved_p4_v2_m8.txt': zero_bubble(4, 2, 8, 1),
    'zb_interleaved_p3_v2_m7.txt': zero_bubble(3, 2, 7, 1),
}

if __name__ == '__main__':
    for name, ranks in FILES.items():
        with open(os.path.join(sys.argv[1], name), 'w', encoding='ascii') as file:
            file.write(text(ranks))
