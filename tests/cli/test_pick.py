#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""The choice of the next token by `tpp generate`, against the same rule written down here."""

import ctypes
import math
import os
import random
import subprocess
import tempfile
import unittest

from train_run import SOURCE

MASK = 2**64 - 1


class Rule(ctypes.Structure):
    _fields_ = [('temperature', ctypes.c_double), ('top_k', ctypes.c_int32), ('top_p', ctypes.c_double),
                ('seed', ctypes.c_uint64)]


class Entry(ctypes.Structure):
    _fields_ = [('logit', ctypes.c_double), ('weight', ctypes.c_double), ('id', ctypes.c_int32)]


def build(folder):
    path = os.path.join(folder, 'pick.so')
    subprocess.run(['gcc', '-std=c11', '-shared', '-fPIC', '-O1', '-o', path,
                    os.path.join(SOURCE, 'examples', 'tpp', 'pick.c'), '-lm'], check=True)
    library = ctypes.CDLL(path)
    library.pick_random.restype = ctypes.c_double
    library.pick_random.argtypes = [ctypes.c_uint64] * 3
    library.pick.argtypes = [ctypes.POINTER(Rule), ctypes.POINTER(ctypes.c_double), ctypes.c_int32, ctypes.c_uint64,
                             ctypes.c_uint64, ctypes.POINTER(Entry)]
    return library


def split_mix(x):
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & MASK
    return x ^ (x >> 31)


def uniform(seed, sequence, position):
    return (split_mix(split_mix(split_mix(seed) ^ sequence) ^ position) >> 11) / 2**53


def shares(logits, temperature, top_k, top_p):
    """{id: probability} of the tokens that are left, the likeliest first."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    order = order[:top_k] if top_k else order
    weights = [math.exp((logits[i] - logits[order[0]]) / temperature) for i in order]
    total, kept, summed = math.fsum(weights), [], 0.0
    for i, weight in zip(order, weights):
        if kept and summed >= top_p * total:
            break
        kept.append((i, weight))
        summed += weight
    return {i: weight / summed for i, weight in kept}


class Pick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.library = build(folder)

    def pick(self, logits, sequence=0, position=0, temperature=1.0, top_k=0, top_p=1.0, seed=1):
        rule = Rule(temperature, top_k, top_p, seed)
        count = len(logits)
        return self.library.pick(rule, (ctypes.c_double * count)(*logits), count, sequence, position,
                                 (Entry * count)())

    def test_random_numbers(self):
        self.assertEqual(split_mix(0), 0xe220a8397b1dcdaf)  # the first number of the generator with seed 0
        for seed, sequence, position in ((0, 0, 0), (1, 2, 3), (2**64 - 1, 5, 2**40)):
            self.assertEqual(self.library.pick_random(seed, sequence, position), uniform(seed, sequence, position))

    def test_rule(self):
        draw = random.Random(7)
        for n in range(3000):
            logits = [draw.choice([draw.gauss(0, 3), 1.0, -math.inf]) for _ in range(draw.randint(1, 40))]
            logits[draw.randrange(len(logits))] = 0.5
            rule = {'temperature': draw.choice([0.1, 0.7, 1.0, 2.5]), 'top_k': draw.choice([0, 1, 2, 5, 100]),
                    'top_p': draw.choice([1.0, 0.9, 0.5, 1e-9])}
            left = uniform(n, 3, n * n)
            want, low = None, 0.0
            for i, share in shares(logits, **rule).items():
                if abs(left - low) < 1e-12:
                    break  # on the edge: either is right
                want, low = i, low + share
                if left < low:
                    self.assertEqual(self.pick(logits, 3, n * n, seed=n, **rule), want, (n, rule, logits))
                    break

    def test_greedy(self):
        for logits, want in (([1, 3, 3, 2], 1), ([-1e300, -math.inf, -5], 2), ([0], 0), ([7, 7, 7], 0)):
            self.assertEqual(self.pick(logits, temperature=0), want)
            self.assertEqual(self.pick(logits, temperature=1.5, top_k=1), want)
            self.assertEqual(self.pick(logits, temperature=1.5, top_p=1e-12), want)

    def test_shares(self):
        logits = [math.log(x) for x in (0.5, 0.25, 0.125, 0.125)]
        counts = [0] * 4
        for position in range(20000):
            counts[self.pick(logits, 1, position)] += 1
        for count, share in zip(counts, (0.5, 0.25, 0.125, 0.125)):
            self.assertAlmostEqual(count / 20000, share, delta=0.015)


if __name__ == '__main__':
    unittest.main()
