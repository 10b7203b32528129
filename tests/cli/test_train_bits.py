#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""The split never changes what is learnt: bit for bit with fixed blocks, to rounding without."""

import unittest

from train_run import bits, largest_relative, train

LAYOUTS = [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4)]
# With the pieces of the model on a rank that are asked for; the others have a number of their own.
SCHEDULES = [('gpipe', 1), ('1f1b', 1), ('eager-1f1b', 1), ('interleaved', 2), ('bfs', 2), ('zb-h1', 1), ('zb-h2', 1),
             ('zb-interleaved', 2), ('zb-v', 1), ('v-half', 1), ('v-min', 1), ('v-1f1b', 1), ('dualpipe', 1),
             ('dualpipev', 1)]
EXECUTORS = ['serial', 'threads', 'distributed']


class FixedBlocks(unittest.TestCase):
    def same_everywhere(self, dtype):
        reference = bits(train(dtype=dtype, blocks=4))
        self.assertEqual(len(set(reference['loss_hex'])), 12)
        self.assertEqual(bits(train(dtype=dtype, blocks=4)), reference, 'run after run')
        for turn, (tp, pp) in enumerate(LAYOUTS):
            for schedule, chunks in SCHEDULES:
                executor = EXECUTORS[turn % 3]  # each schedule meets each of them twice
                with self.subTest(tp=tp, pp=pp, schedule=schedule, executor=executor):
                    result = train(dtype=dtype, blocks=4, tp=tp, pp=pp, schedule=schedule, chunks=chunks,
                                   executor=executor)
                    self.assertEqual(bits(result), reference)
                turn += 1

    def test_float32(self):
        self.same_everywhere('float32')

    def test_float64(self):
        self.same_everywhere('float64')

    def test_bfloat16(self):
        self.same_everywhere('bfloat16')

    def test_families(self):
        """What a family or an option changes is the same under every split, and does change something."""
        kinds = [{'family': 'llama', 'kv_heads': 2, 'ffn': 48}, {'family': 'mistral', 'window': 5, 'kv_heads': 1},
                 {'family': 'qwen2', 'tied': True}, {'family': 'qwen3', 'head_cols': 12},
                 {'tied': True, 'no_bias': True}, {'act': 'geglu', 'norm': 'rms'}, {'rope': 100, 'qk_norm': True},
                 {'dropout': 0.2, 'label_smoothing': 0.1}, {'sequence_parallel': True, 'seq': 15},
                 {'family': 'qwen3', 'parallel_block': True, 'sequence_parallel': True}]
        seen = [bits(train(blocks=4, steps=3))]
        for kind in kinds:
            reference = bits(train(blocks=4, steps=3, **kind))
            self.assertNotIn(reference, seen)
            seen.append(reference)
            for layout in ({'tp': 4}, {'tp': 2, 'pp': 4}, {'pp': 2, 'chunks': 2, 'schedule': 'interleaved',
                                                          'executor': 'serial'},
                           {'pp': 2, 'schedule': 'zb-v'}, {'pp': 4, 'schedule': 'dualpipe', 'executor': 'distributed'}):
                with self.subTest(**kind, **layout):
                    self.assertEqual(bits(train(blocks=4, steps=3, **kind, **layout)), reference)
            with self.subTest(dtype='bfloat16', **kind):
                narrow = {'blocks': 4, 'steps': 2, 'dtype': 'bfloat16', **kind}
                self.assertEqual(bits(train(tp=2, pp=2, **narrow)), bits(train(**narrow)))

    def test_recompute_changes_nothing(self):
        for kind in ({'dropout': 0.1}, {'family': 'llama', 'kv_heads': 2, 'sequence_parallel': True}):
            reference = bits(train(blocks=4, steps=3, **kind))
            for recompute in ('selective', 'full'):
                for layout in ({}, {'tp': 2, 'pp': 2}):
                    result = bits(train(blocks=4, steps=3, recompute=recompute, **kind, **layout))
                    self.assertEqual(result, reference, (recompute, kind, layout))

    def test_blocks_and_seed_matter(self):
        one = bits(train(blocks=1))
        self.assertEqual(one, bits(train(blocks=1, pp=4, chunks=2, schedule='interleaved')))
        self.assertNotEqual(one['loss_hex'][-1], bits(train(blocks=4))['loss_hex'][-1])
        self.assertNotEqual(one['loss_hex'][0], bits(train(blocks=1, seed=2))['loss_hex'][0])

    def test_odd_shapes(self):
        """Layers that do not divide by stages, micro-batches that do not divide by ranks."""
        shape = {'blocks': 2, 'layers': 7, 'batch': 10, 'micro_batches': 5, 'hidden': 24, 'heads': 2, 'seq': 19}
        reference = bits(train(**shape))
        self.assertEqual(bits(train(**shape, tp=2, pp=3)), reference)
        self.assertEqual(bits(train(**shape, pp=3, chunks=2, schedule='interleaved')), reference)
        self.assertEqual(bits(train(**shape, tp=2, pp=2, chunks=3, schedule='interleaved')), reference)
        self.assertEqual(bits(train(**shape, pp=7, schedule='gpipe')), reference)
        for schedule in ('zb-h1', 'zb-v', 'v-half', 'dualpipe', 'dualpipev'):
            self.assertEqual(bits(train(**shape, pp=3, schedule=schedule)), reference, schedule)

    def test_tied_on_one_rank(self):
        """A V has embedding and head on the same rank: their table's gradient is summed there, once."""
        for dtype in ('float32', 'bfloat16'):
            reference = bits(train(blocks=2, tied=True, dtype=dtype))
            for schedule in ('v-1f1b', 'v-min', 'dualpipev', 'dualpipe'):
                for pp in (1, 3):
                    result = train(blocks=2, tied=True, dtype=dtype, pp=pp, tp=2, schedule=schedule, micro_batches=4)
                    self.assertEqual(bits(result), reference, (schedule, pp, dtype))


class FreeBlocks(unittest.TestCase):
    def close_everywhere(self, dtype, tolerance):
        reference = train(dtype=dtype, steps=20)['steps']['loss']
        for tp, pp in LAYOUTS[1:]:
            with self.subTest(tp=tp, pp=pp):
                losses = train(dtype=dtype, steps=20, tp=tp, pp=pp)['steps']['loss']
                self.assertLess(largest_relative(losses, reference), tolerance)

    def test_float32(self):
        self.close_everywhere('float32', 1e-5)

    def test_float64(self):
        self.close_everywhere('float64', 1e-12)

    def test_bfloat16(self):
        self.close_everywhere('bfloat16', 2e-3)

    def test_bfloat16_learns_as_float32_does(self):
        """At a rate at which training is stable, rounding of what is stored hardly shows."""
        wide = train(steps=60, lr=2e-3)['steps']['loss']
        narrow = train(steps=60, lr=2e-3, dtype='bfloat16', tp=2)['steps']['loss']
        self.assertLess(wide[-1], 0.6 * wide[0])
        self.assertLess(largest_relative(narrow, wide), 2e-3)
        self.assertNotEqual(narrow, wide)


class MicroBatches(unittest.TestCase):
    """The gradient is that of the mean loss, however the step is cut."""

    def test_same_loss(self):
        for layout in ({}, {'tp': 2, 'pp': 2, 'blocks': 4}):
            runs = {m: train(dtype='float64', micro_batches=m, steps=6, **layout)['steps'] for m in (1, 2, 4, 8)}
            for m in (2, 4, 8):
                with self.subTest(micro_batches=m, **layout):
                    self.assertLess(largest_relative(runs[m]['loss'], runs[1]['loss']), 1e-13)
                    self.assertLess(largest_relative(runs[m]['grad_norm'], runs[1]['grad_norm']), 1e-12)

    def test_each_has_its_own_loss(self):
        for schedule in ('gpipe', '1f1b'):
            halves = train(dtype='float64', micro_batches=8, steps=3, pp=2, schedule=schedule)['steps']
            whole = train(dtype='float64', micro_batches=4, steps=3, pp=2, schedule=schedule)['steps']
            for step in range(3):
                small = [float.fromhex(x) for x in halves['micro_loss_hex'][step]]
                large = [float.fromhex(x) for x in whole['micro_loss_hex'][step]]
                self.assertEqual(len(set(small)), 8)
                pairs = [(a + b) / 2 for a, b in zip(small[0::2], small[1::2])]
                self.assertLess(largest_relative(pairs, large), 1e-13)
                self.assertAlmostEqual(sum(large) / 4, whole['loss'][step], delta=1e-14)


class Learning(unittest.TestCase):
    def test_below_unigram_entropy(self):
        result = train(layers=2, hidden=64, batch=16, seq=64, steps=120, warmup=12, tp=2, pp=2)
        losses = result['steps']['loss']
        self.assertAlmostEqual(losses[0], 5.545, delta=0.1)  # ln 256: nothing known
        self.assertLess(sum(losses[-10:]) / 10, result['text']['unigram_entropy_nats'] - 0.4)

    def test_compare(self):
        result = train(tp=2, pp=2, blocks=4, compare=True)
        compare = result['compare']
        self.assertTrue(compare['losses_equal_bits'] and compare['params_equal_bits'])
        self.assertEqual(result['steps']['unsplit_loss_hex'], result['steps']['loss_hex'])
        self.assertEqual(result['steps']['unsplit_grad_norm_hex'], result['steps']['grad_norm_hex'])
        self.assertEqual(len(compare['params']), 2 + 8 * 12 + 3)
        self.assertEqual(sum(p['rows'] * p['cols'] for p in compare['params']), result['parameters'])
        free = train(tp=2, pp=2, dtype='float64', compare=True)['compare']
        self.assertFalse(free['params_equal_bits'])
        self.assertLess(free['loss_max_abs_diff'], 1e-12)


if __name__ == '__main__':
    unittest.main()
