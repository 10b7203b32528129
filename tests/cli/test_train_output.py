#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""What `tpp` prints and writes, how it ends when stopped, what it says to bad input."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

from train_run import TEXT, TINY, TPP, arguments, run, train

OPTIONS = ('data model family layers hidden heads kv-heads head-cols ffn act norm rope window qk-norm no-bias '
           'parallel-block tied seq dtype steps batch micro-batches seed lr min-lr warmup weight-decay clip dropout '
           'label-smoothing load tp pp chunks schedule executor blocks sequence-parallel recompute compare report gantt '
           'trace save save-config json quiet help').split()

# Options, and what the one sentence has to name.
WRONG = [
    ('--layer-count=3', ['--layer-count', '--help']),
    ('--se=3', ['--se', '--seq, --seed']),
    ('--laters=3', ['--laters', '--layers']),
    ('--layers', ['--layers', 'value']),
    ('--quiet=yes', ['--quiet', 'no value']),
    ('--layers=0', ['--layers 0', '1 to 1024']),
    ('--layers=-1', ['--layers -1', '1 to 1024']),
    ('--layers=4x', ['--layers 4x', 'whole number']),
    ('--layers=', ['--layers', 'whole number']),
    ('--layers=1e3', ['--layers 1e3', 'whole number']),
    ('--layers=99999999999999999999', ['--layers 9', 'out of range']),
    ('--seed=-1', ['--seed -1', 'whole number']),
    ('--lr=nan', ['--lr nan', 'finite number', '0 to 10']),
    ('--lr=inf', ['--lr inf', 'finite number']),
    ('--lr=1e-3x', ['--lr 1e-3x', 'finite number']),
    ('--lr=-1', ['--lr -1', 'out of range']),
    ('--clip=nan', ['--clip nan']),
    ('--min-lr=0.5', ['--min-lr 0.5', '--lr']),
    ('--warmup=100', ['--warmup 100', '--steps 12']),
    ('--schedule=zigzag', ['--schedule zigzag', 'gpipe, 1f1b, interleaved']),
    ('--executor=mpi', ['--executor mpi', 'threads, serial']),
    ('--dtype=float16', ['--dtype float16', 'float32, float64']),
    ('--data=', ['--data', 'file']),
    ('--data=/does/not/exist', ['--data /does/not/exist', 'No such file']),
    ('--data=/', ['--data /', 'directory']),
    ('--data=/dev/null', ['--data /dev/null', 'empty']),
    ('--heads=5', ['--heads 5', '--hidden 32', '1, 2, 4, 8, 16, 32']),
    ('--tp=3', ['--heads 4', '--tp 3', '1, 2, 4']),
    ('--tp=0', ['--tp 0', '1 to 256']),
    ('--blocks=3', ['--blocks 3', 'power of two']),
    ('--blocks=8', ['--blocks 8', '--heads 4', '1, 2, 4']),
    ('--blocks=2 --tp=4', ['--tp 4', '--blocks 2', '1, 2']),
    ('--micro-batches=0', ['--micro-batches 0', '--batch 8', '1, 2, 4, 8']),
    ('--micro-batches=3', ['--micro-batches 3', '--batch 8', '1, 2, 4, 8']),
    ('--micro-batches=-4', ['--micro-batches -4', '1, 2, 4, 8']),
    ('--pp=9', ['--layers 8', '--pp 9']),
    ('--pp=4 --chunks=3 --schedule=interleaved', ['--layers 8', '--pp 4', '--chunks 3', '12']),
    ('--chunks=2', ['--chunks 2', 'interleaved', '1f1b']),
    ('--chunks=3 --schedule=zb-v', ['--chunks 3', 'interleaved, bfs or zb-interleaved', 'zb-v']),
    ('--pp=5 --schedule=v-min', ['--layers 8', '10 stages', 'v-min', '--pp 5', '10 or more']),
    ('--pp=9 --schedule=dualpipe', ['--layers 8', '9 stages', 'dualpipe', '9 or more']),
    ('--heads=32 --tp=32 --layers=256 --pp=16', ['--tp 32', '--pp 16', '256']),
    ('--seq=200000', ['--seq 200000', 'kjv_excerpt.txt', '100719']),
    ('--gantt=/does/not/exist/g.svg', ['--gantt /does/not/exist/g.svg', 'No such file']),
    ('--trace=/tmp', ['--trace /tmp', 'directory']),
    ('--trace=x --gantt=x', ['--trace', '--gantt', 'x']),
    ('--save=x --trace=x', ['--trace', '--save', 'x']),
    ('--recompute=all', ['--recompute all', 'none, selective, full']),
    ('--family=bert', ['--family bert', 'gpt2, llama, mistral, qwen2, qwen3']),
    ('--kv-heads=3', ['--kv-heads 3', '--heads 4', '1, 2, 4']),
    ('--kv-heads=4 --heads=16 --tp=8 --kv-heads=1 --ffn=20', ['--ffn 20', '--tp 8', '1, 2, 4, 5, 10, 20']),
    ('--ffn=33 --blocks=2', ['--ffn 33', '--blocks 2', '1, 3, 11, 33']),
    ('--act=tanh', ['--act tanh', 'gelu, gelu-erf', 'swiglu, geglu']),
    ('--norm=batch', ['--norm batch', 'layer, rms']),
    ('--rope=0', ['--rope 0', '1 to 1e+12']),
    ('--window=0', ['--window 0', '1 to']),
    ('--dropout=1', ['--dropout 1', '0 to 0.99']),
    ('--label-smoothing=-1', ['--label-smoothing -1', '0 to 0.99']),
    ('again', ['again', '--help']),
]
if os.environ.get('TPP_WITH_IO') == '0':
    WRONG += [(f'--{option}=w', [f'--{option} w', 'without']) for option in ('save', 'save-config', 'load')]
    WRONG += [('--model=w', ['--layers', '--model w'])]
else:
    WRONG += [
        ('--save-config=/does/not/exist/c', ['--save-config /does/not/exist/c', 'No such file']),
        ('--save-config=x --norm=rms', ['--save-config', 'model.norm', '"gpt2"']),
        ('--save=x --save-config=x', ['--save', '--save-config', 'x']),
        ('--save=/does/not/exist/w', ['--save /does/not/exist/w', 'No such file']),
        ('--save=/tmp', ['--save /tmp', 'no regular file']),
        ('--save=/dev/null', ['--save /dev/null', 'no regular file']),
        ('--load=/does/not/exist', ['--load /does/not/exist', 'No such file']),
        ('--load=/tmp', ['--load /tmp', 'neither model.safetensors.index.json nor']),
        ('--load=/dev/null', ['--load /dev/null', 'no regular file']),
    ]


class Words(unittest.TestCase):
    def test_help(self):
        for words in (['--help'], ['-h'], ['help'], ['train', '--help'], ['train', '-h'], ['help', 'train']):
            done = run(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ''), words)
        for option in OPTIONS:
            self.assertIn(f'\n  --{option} ', run('train', '--help').stdout)
        self.assertLess(max(map(len, run('train', '--help').stdout.split('\n'))), 101)

    def test_version(self):
        done = run('--version')
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r'^tpp \d+\.\d+\.\d+\nBLAS: OpenBLAS .*(serial|pthread|OpenMP)')

    def test_no_command(self):
        self.assertEqual(run().returncode, 2)
        done = run('trian')
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r'^tpp: trian is .*--help.*\n$')

    def test_bad_input(self):
        for words, expected in WRONG:
            with self.subTest(words):
                done = run('train', *arguments(TINY), *words.split(' '))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, '')
                self.assertTrue(done.stderr.startswith('tpp train: ') and done.stderr.count('\n') == 1, done.stderr)
                for part in expected:
                    self.assertIn(part, done.stderr)

    def test_data_is_required(self):
        done = run('train')
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r'^tpp train: --data FILE is missing.*\n$')

    def test_names_of_schedules(self):
        for name, short in (('GPipe', 'gpipe'), ('1F1B', '1f1b'), ('Interleaved1F1B', 'interleaved'),
                            ('INTERLEAVED', 'interleaved'), ('ScheduleLoopedBFS', 'bfs'), ('ZB-H1', 'zb-h1'),
                            ('ScheduleZBVZeroBubble', 'zb-v'), ('ScheduleDualPipeV', 'dualpipev')):
            self.assertEqual(train(steps=1, schedule=name)['options']['schedule'], short)
        self.assertEqual(train(steps=1, schedule='zb-v')['options']['chunks'], 2)

    def test_progress_and_quiet(self):
        done = run('train', *arguments(TINY))
        self.assertRegex(done.stderr, r'step +12/12  loss \d\.\d+  lr .* grad norm .* tokens/s .* ms/step')
        self.assertNotIn('\r', done.stderr)
        self.assertRegex(done.stdout, r'^done after 12 of 12 steps.*\n$')
        self.assertEqual(run('train', *arguments({**TINY, 'quiet': True})).stderr, '')


class Results(unittest.TestCase):
    def test_text_facts(self):
        text = train(steps=1)['text']
        with open(TEXT, 'rb') as file:
            data = file.read()
        self.assertEqual((text['bytes'], text['distinct']), (len(data), len(set(data))))
        self.assertTrue(2.9 < text['unigram_entropy_nats'] < 3.1, text)
        self.assertTrue(2.0 < text['bigram_entropy_nats'] < 2.3, text)

    def test_pipeline_facts(self):
        result = train(tp=2, pp=4, layers=4, executor='threads')
        self.assertEqual(result['pipeline']['peak_in_flight'], [4, 3, 2, 1])
        self.assertEqual(train(pp=2, schedule='gpipe')['pipeline']['peak_in_flight'], [4, 4])
        self.assertEqual(train(pp=4, schedule='zb-h1')['pipeline']['peak_in_flight'], [4, 4, 4, 4])
        self.assertAlmostEqual(result['pipeline']['bubble_share_equal_stages'], 3 / 7)
        for share in ('bubble_share_simulated', 'bubble_share_measured'):
            self.assertTrue(0 < result['pipeline'][share] < 1)

    def test_all_reduces(self):
        for blocks in (0, 4):
            counted = train(tp=2, pp=2, layers=5, blocks=blocks)['all_reduces_per_micro_batch']
            wide = 2 * 16 * 32  # sequences of a micro-batch * seq * hidden
            for direction in ('forward', 'backward'):
                layer = counted['layer'][direction]
                self.assertEqual((layer['calls'], layer['elements'], layer['bytes']), (2, 2 * wide, 8 * wide))
            self.assertEqual([(s['forward']['calls'], s['backward']['calls']) for s in counted['stages']],
                             [(7, 6), (6, 5)])
            self.assertTrue(all(s[d]['as_rule'] for s in counted['stages'] for d in ('forward', 'backward')))

    def test_gathers_and_scatters(self):
        """With sequence parallelism and parallel blocks: as many calls as their rules say, of a share of the tokens."""
        for options, forward, backward in (({'sequence_parallel': True}, 4, 6), ({'parallel_block': True}, 1, 1),
                                           ({'sequence_parallel': True, 'parallel_block': True}, 2, 3)):
            result = train(tp=2, pp=2, layers=5, seq=15, batch=12, label_smoothing=0.1, **options)
            sequence = options.get('sequence_parallel', False)
            counted = result['collectives_per_micro_batch' if sequence else 'all_reduces_per_micro_batch']
            wide = (-(-3 * 15 // 2) if sequence else 3 * 15) * 32
            for direction, calls in (('forward', forward), ('backward', backward)):
                layer = counted['layer'][direction]
                self.assertEqual((layer['calls'], layer['elements']), (calls, calls * wide), options)
            self.assertTrue(all(s[d]['as_rule'] for s in counted['stages'] for d in ('forward', 'backward')), options)
            for recompute in ('full',) if 'parallel_block' in options else ('selective', 'full'):
                result = train(tp=2, pp=2, layers=5, recompute=recompute, **options)
                stages = result['collectives_per_micro_batch' if sequence else 'all_reduces_per_micro_batch']['stages']
                self.assertTrue(all(s[d]['as_rule'] for s in stages for d in ('forward', 'backward')), options)

    def test_report_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            gantt, trace = os.path.join(folder, 'g.svg'), os.path.join(folder, 't.json')
            done = run('train', *arguments({**TINY, 'tp': 2, 'pp': 2, 'blocks': 4, 'compare': True, 'report': True,
                                            'gantt': gantt, 'trace': trace}))
            self.assertEqual(done.returncode, 0, done.stderr)
            for part in ('all parameters: equal bits\n', 'losses      equal bits at every step\n', 'unigram entropy',
                         'bigram entropy', 'simulated', 'measured', 'in flight', 'tokens/s', 'as the rule', gantt, trace):
                self.assertIn(part, done.stdout)
            self.assertNotIn('NOT', done.stdout)
            self.assertEqual(sorted(os.listdir(folder)), ['g.svg', 't.json'])
            self.assertTrue(xml.etree.ElementTree.parse(gantt).getroot().tag.endswith('svg'))
            with open(trace, encoding='utf-8') as file:
                events = json.load(file)
            events = events['traceEvents'] if isinstance(events, dict) else events
            self.assertGreaterEqual(len(events), 8 * 4 * 2 * 4)  # steps kept * rows * (F and B) * micro-batches

    def test_json_with_report(self):
        done = run('train', *arguments({**TINY, 'json': True, 'report': True, 'compare': True}))
        self.assertEqual(json.loads(done.stdout)['steps_done'], 12)
        self.assertIn('all parameters: equal bits\n', done.stderr)

    def test_pipe_as_text(self):
        with open(TEXT, 'rb') as file:
            done = subprocess.run([TPP, 'train', *arguments({**TINY, 'data': '/dev/stdin', 'quiet': True})],
                                  input=file.read(), capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_devices_are_not_replaced(self):
        self.assertEqual(run('train', *arguments({**TINY, 'steps': 1, 'trace': '/dev/null'})).returncode, 0)
        self.assertFalse(os.path.isfile('/dev/null'))


class Stopping(unittest.TestCase):
    def stop(self, number, **options):
        options = {**TINY, 'steps': 1000000, 'json': True, 'tp': 2, 'pp': 2, **options}
        with subprocess.Popen([TPP, 'train', *arguments(options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            while 'step     1/' not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(number)
            sent = time.monotonic()
            out, _ = process.communicate(timeout=30)
            watchdog.cancel()
            return process.returncode, out, time.monotonic() - sent

    def test_interrupt(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, seconds = self.stop(signal.SIGINT, gantt=os.path.join(folder, 'g.svg'))
            self.assertEqual(code, 130)
            self.assertLess(seconds, 5)
            result = json.loads(out)
            self.assertTrue(result['stopped'])
            self.assertTrue(0 < result['steps_done'] == len(result['steps']['loss']) < 1000000)
            self.assertEqual(os.listdir(folder), ['g.svg'])

    def test_terminate(self):
        code, out, _ = self.stop(signal.SIGTERM, executor='serial')
        self.assertEqual(code, 143)
        self.assertTrue(json.loads(out)['stopped'])


if __name__ == '__main__':
    unittest.main()
