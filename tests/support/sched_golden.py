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


def text(ranks):
    return ''.join(' '.join(line) + '\n' for line in ranks)


FILES = {
    'gpipe_p4_m8.txt': gpipe(4, 8),
    '1f1b_p4_m8.txt': one_f_one_b(4, 8),
    'interleaved_p2_v2_m4.txt': interleaved(2, 2, 4),
    'interleaved_p4_v2_m8.txt': interleaved(4, 2, 8),
    'interleaved_p3_v2_m7.txt': interleaved(3, 2, 7),
    'interleaved_p2_v2_m5_g3.txt': interleaved(2, 2, 5, 3),
}

if __name__ == '__main__':
    for name, ranks in FILES.items():
        with open(os.path.join(sys.argv[1], name), 'w', encoding='ascii') as file:
            file.write(text(ranks))
