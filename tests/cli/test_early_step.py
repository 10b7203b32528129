#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""An optimizer step without a barrier changes nothing but the time: every bit is that of the run that waits."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from train_run import TEXT, TINY, TPP, arguments, bits, run, train

LAYOUTS = [{}, {'tp': 4}, {'pp': 2, 'tp': 2}, {'pp': 4}, {'pp': 4, 'schedule': 'gpipe'}, {'pp': 8, 'micro_batches': 2},
           {'pp': 2, 'chunks': 3, 'schedule': 'interleaved'}, {'pp': 4, 'schedule': 'zb-h2'},
           {'pp': 2, 'schedule': 'zb-v'}, {'pp': 2, 'schedule': 'dualpipe'}, {'pp': 2, 'tp': 2, 'schedule': 'dualpipev'}]
EXECUTORS = ('threads', 'serial')


def read_json(path):
    with open(path) as file:
        return json.load(file)


def early(**options):
    return train(blocks=4, early_step=True, **options)


class SameBits(unittest.TestCase):
    def check(self, layouts=LAYOUTS, **options):
        """Under every layout; the steps that were done again are those above the limit."""
        for layout in layouts:
            options_here = {**options, **layout}
            wanted = train(blocks=4, **options_here)
            clip = options.get('clip', 1)
            redone = [clip > 0 and norm > clip for norm in wanted['steps']['grad_norm']]
            for executor in EXECUTORS:
                with self.subTest(executor=executor, **options_here):
                    result = early(executor=executor, **options_here)
                    self.assertEqual(bits(result), bits(wanted))
                    self.assertEqual(result['steps']['redone'], redone)
                    self.assertEqual(result['rollbacks'], sum(redone))
        return sum(redone), len(redone)

    def test_some_steps_are_clipped(self):
        redone, steps = self.check(steps=40)
        self.assertTrue(5 < redone < steps - 5, redone)

    def test_no_step_is_clipped(self):
        self.assertEqual(self.check(clip=0), (0, 12))
        self.assertEqual(self.check(clip=1000, layouts=LAYOUTS[2:4]), (0, 12))

    def test_every_step_is_clipped(self):
        self.assertEqual(self.check(clip=0.01), (12, 12))

    def test_kinds(self):
        """What else happens between backward and step: tied tables, copied heads; what else a step remembers."""
        for kind in ({'tied': True}, {'kv_heads': 1, 'dropout': 0.2}, {'dtype': 'bfloat16', 'tied': True},
                     {'dtype': 'float64', 'family': 'llama'}, {'sequence_parallel': True, 'seq': 15}):
            self.check(steps=30, layouts=[LAYOUTS[2], LAYOUTS[6], LAYOUTS[8]], **kind)

    def test_beside_the_unsplit_model(self):
        result = early(tp=2, pp=2, steps=30, compare=True)
        self.assertTrue(result['compare']['losses_equal_bits'] and result['compare']['params_equal_bits'])
        self.assertGreater(result['rollbacks'], 0)

    def test_free_blocks(self):
        plain, result = train(tp=2, pp=2, steps=30), train(tp=2, pp=2, steps=30, early_step=True)
        self.assertEqual(bits(plain), bits(result))


class NotFinite(unittest.TestCase):
    """A gradient that is no number ends the training as it does with a barrier: no rank takes that step."""

    def test_message(self):
        shape = {**TINY, 'steps': 100, 'lr': 10, 'clip': 0, 'warmup': 0, 'weight_decay': 10, 'blocks': 4, 'quiet': True}
        for layout in ({'pp': 4}, {'pp': 2, 'tp': 2}, {}):
            plain = run('train', *arguments({**shape, **layout}))
            self.assertEqual(plain.returncode, 1, plain.stderr)
            self.assertIn('nan', plain.stderr)
            for executor in EXECUTORS:
                result = run('train', *arguments({**shape, **layout, 'executor': executor, 'early_step': True}))
                self.assertEqual((result.returncode, result.stderr), (1, plain.stderr))

    def test_from_the_first_step(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'weights.safetensors')
            train(save=path, steps=1)
            with open(path, 'r+b') as file:
                file.seek(-8, os.SEEK_END)
                file.write(b'\xff' * 8)  # NaN in the last tensor
            shape = {**TINY, 'load': path, 'quiet': True, 'blocks': 4, 'pp': 4}
            plain = run('train', *arguments(shape))
            self.assertIn('step 1 ', plain.stderr)
            result = run('train', *arguments({**shape, 'early_step': True}))
            self.assertEqual((result.returncode, result.stderr), (1, plain.stderr))


class Ends(unittest.TestCase):
    def test_ctrl_c(self):
        """All ranks end after the same step, with the results so far."""
        for layout in ({'pp': 4}, {'pp': 2, 'tp': 2}, {'pp': 4, 'executor': 'serial'}):
            flat = {'lr': 1e-3, 'min_lr': 1e-3, 'warmup': 0}  # the rate does not depend on --steps
            options = {**TINY, **flat, 'steps': 100000, 'blocks': 4, 'early_step': True, 'json': True, 'quiet': True,
                       **layout}
            with self.subTest(**layout), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, 'out.json')
                with open(path, 'w') as out:
                    child = subprocess.Popen([TPP, 'train', *arguments(options)], stdout=out, stderr=subprocess.PIPE)
                time.sleep(1)
                child.send_signal(signal.SIGINT)
                self.assertEqual((child.wait(60), child.stderr.read()), (130, b''))
                child.stderr.close()
                result = read_json(path)
                done = result['steps_done']
                self.assertTrue(result['stopped'] and 0 < done < 100000)
                self.assertEqual(len(result['steps']['loss_hex']), done)
                wanted = train(blocks=4, steps=done, **flat, **layout)
                self.assertEqual(bits(result), bits(wanted))

    def test_pictures(self):
        """The trace has the last steps of all ranks on one clock, each action once."""
        with tempfile.TemporaryDirectory() as folder:
            trace, gantt = os.path.join(folder, 'trace.json'), os.path.join(folder, 'step.svg')
            for executor in EXECUTORS:
                early(pp=4, tp=2, steps=30, trace=trace, gantt=gantt, executor=executor)
                events = [e for e in read_json(trace)['traceEvents'] if e['ph'] == 'X' and e['cat'] == 'compute']
                seen = {(e['args']['step'], e['args']['stage'], e['tid'], e['name']): e for e in events}
                self.assertEqual(len(seen), len(events))
                self.assertEqual(len(events), 8 * 8 * (4 + 4))
                self.assertEqual({e['args']['step'] for e in events}, set(range(22, 30)))
                for (step, stage, tid, name), event in seen.items():
                    before = seen.get((step, stage - 1, tid, name))
                    if name[0] == 'F' and before:  # clocks of different ranks differ by microseconds at most
                        self.assertGreater(event['ts'], before['ts'] + before['dur'] - 100)
                with open(gantt) as file:
                    self.assertIn('</svg>', file.read())

    def test_help_and_options(self):
        self.assertIn('--early-step', run('train', '--help').stdout)
        self.assertFalse(train()['options']['early_step'])
        self.assertNotIn('rollbacks', train())
        result = run('train', '--data', TEXT, '--steps', '3', '--early-step', '--pp', '2', '--report')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('were taken back', result.stdout)


if __name__ == '__main__':
    unittest.main()
