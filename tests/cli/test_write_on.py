#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""`tpp generate`: the same text under every split, from every kind of model that `tpp train --save` writes; what
it prints, how it ends, what it says to bad input."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from train_run import TPP, arguments, run, train

LAYOUTS = [{'tp': 2}, {'pp': 2}, {'tp': 2, 'pp': 2}, {'tp': 4}]
PROMPTS = ['--prompt=And God', '--prompt=T', '--prompt=In the beginning w']
SAMPLED = {'temperature': 1.5, 'top_k': 20, 'top_p': 0.95, 'seed': 5}
OPTIONS = ('load model prompt tokens context dtype temperature top-k top-p seed tp pp blocks json quiet help').split()

WRONG = [
    ('--tokens=0', ['--tokens 0', '1 to 1000000']),
    ('--temperature=-1', ['--temperature -1', '0 to 100']),
    ('--temperature=nan', ['--temperature nan', 'finite']),
    ('--temperature=1 --top-p=0', ['--top-p 0', 'more than 0']),
    ('--top-p=0.5', ['--top-p', '--temperature']),
    ('--top-k=5', ['--top-k', '--temperature']),
    ('--blocks=3', ['--blocks 3', 'power of two']),
    ('--tp=64 --pp=8', ['--tp 64', '--pp 8', '256']),
    ('--tp=3', ['heads = 4', '3']),
    ('--pp=9', ['--pp 9', '8 layers', '1 to 8']),
    ('--context=17', ['--context 17', '16 positions', '1 to 16']),
    ('--prompt=', ['--prompt', 'empty']),
    ('--load=/does/not/exist', ['--load /does/not/exist', 'No such file']),
    ('--model=/does/not/exist', ['--model', '/does/not/exist', 'No such file']),
    ('--promt=x', ['--promt', '--prompt']),
    ('word', ['word', '--help']),
]


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.path = os.path.join(cls.folder, 'w.safetensors')
        train(blocks=4, steps=30, save=cls.path)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def generate(self, *prompts, **options):
        words = arguments({'load': self.path, 'tokens': 24, 'json': True, 'quiet': True, **options})
        done = run('generate', *words, *(prompts or PROMPTS))
        self.assertEqual((done.returncode, done.stderr), (0, ''), options)
        return json.loads(done.stdout)

    def texts(self, *prompts, **options):
        return [text['tokens'] for text in self.generate(*prompts, **options)['texts']]


class Splits(Generate):
    def same_everywhere(self, **options):
        want = self.texts(blocks=4, **options)
        for layout in LAYOUTS:
            self.assertEqual(self.texts(blocks=4, **layout, **options), want, layout)
        return want

    def test_greedy(self):
        want = self.same_everywhere()
        self.assertEqual([len(tokens) for tokens in want], [24] * 3)
        self.assertEqual(self.texts(blocks=4, temperature=2, top_k=1, seed=9), want)

    def test_sampled(self):
        want = self.same_everywhere(**SAMPLED)
        self.assertEqual(self.texts(blocks=4, **SAMPLED), want)
        self.assertNotEqual(self.texts(blocks=4, **{**SAMPLED, 'seed': 6}), want)
        self.assertNotEqual(want[0], want[1])

    def test_other_models(self):
        for number, model in enumerate(({'family': 'llama', 'kv_heads': 2, 'ffn': 48},
                                        {'family': 'qwen3', 'tied': True, 'window': 5}, {'dtype': 'bfloat16'})):
            path = os.path.join(self.folder, f'{number}.safetensors')
            train(blocks=4, steps=5, save=path, **model)
            dtype = {'dtype': model.get('dtype', 'float32'), 'load': path}
            self.same_everywhere(**SAMPLED, **dtype)

    def test_cache_is_as_nothing(self):
        """Each byte again from all before it, with a prompt of one byte more each time."""
        prompt, text = 'And God', b''
        want = bytes(self.texts('--prompt=' + prompt, dtype='float64', tokens=9, context=16)[0])
        for _ in range(9):
            word = prompt.encode() + text
            done = subprocess.run([TPP, 'generate', f'--load={self.path}', '--dtype=float64', '--json', '--quiet',
                                   '--tokens=1', b'--prompt=' + word], capture_output=True, check=True)
            text += bytes(json.loads(done.stdout)['texts'][0]['tokens'])
        self.assertEqual(text, want)

    def test_one_text_alone(self):
        together = self.texts(dtype='float64', tokens=6)
        for prompt, tokens in zip(PROMPTS, together):
            self.assertEqual(self.texts(prompt, dtype='float64', tokens=6), [tokens])


class Output(Generate):
    def run_plain(self, *words):
        return run('generate', f'--load={self.path}', *words)

    def test_text(self):
        done = self.run_plain('--prompt=And', '--tokens=12')
        tokens = self.texts('--prompt=And', tokens=12)[0]
        self.assertEqual(done.stdout, 'And' + bytes(tokens).decode(errors='replace') + '\n')
        self.assertRegex(done.stderr, r'^prompt [\d.]+ ms; then [\d.]+ ms a byte \(median\), [\d.]+ ms \(95 %\); '
                                      r'\d+ bytes/s\n$')
        several = self.run_plain('--prompt=And', '--prompt=The', '--tokens=2', '--quiet')
        self.assertEqual(several.stderr, '')
        self.assertRegex(several.stdout, r'(?s)^--- 1\nAnd.*\n\n--- 2\nThe.*\n$')

    def test_whole_characters(self):
        done = subprocess.run([TPP, 'generate', f'--load={self.path}', '--tokens=3', '--temperature=50', '--quiet',
                               '--prompt=é–𝄞'.encode() + b'\xff\xc3'],
                              capture_output=True, check=True)
        self.assertTrue(done.stdout.decode().startswith('é–𝄞\ufffd'))

    def test_json(self):
        result = self.generate('--prompt=And', tokens=5)
        self.assertEqual(set(result), {'schema', 'version', 'options', 'stopped', 'prompt_ms', 'token_ms_median',
                                       'token_ms_p95', 'tokens_per_s', 'texts'})
        self.assertEqual((result['schema'], result['stopped']), ('tpp-generate/1', False))
        self.assertGreater(result['prompt_ms'], 0)
        self.assertLessEqual(result['token_ms_median'], result['token_ms_p95'])
        self.assertEqual(result['texts'][0]['prompt_bytes'], 3)
        self.assertTrue(result['texts'][0]['text'].startswith('And'))

    def test_help(self):
        done = run('generate', '--help')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        for option in OPTIONS:
            self.assertIn(f'\n  --{option} ', done.stdout)
        self.assertIn('generate', run('--help').stdout)
        self.assertLess(max(map(len, done.stdout.split('\n'))), 101)

    def test_interrupt(self):
        with subprocess.Popen([TPP, 'generate', f'--load={self.path}', '--prompt=And', '--tokens=1000000', '--tp=2',
                               '--pp=2'], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.read(3), b'And')
            process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertTrue(out.endswith(b'\n') and err.startswith(b'prompt '), err)

    def test_closed_pipe(self):
        with open('/dev/full', 'wb') as full:
            done = subprocess.run([TPP, 'generate', f'--load={self.path}', '--prompt=And', '--tokens=5'], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr.count('\n')), (1, 1), done.stderr)


class Misuse(Generate):
    def refused(self, code, expected, *words):
        done = run('generate', *words)
        self.assertEqual(done.returncode, code, (words, done.stderr))
        self.assertTrue(done.stderr.startswith('tpp generate: ') and done.stderr.count('\n') == 1, done.stderr)
        for part in expected:
            self.assertIn(part, done.stderr)

    def test_wrong(self):
        for words, expected in WRONG:
            with self.subTest(words):
                prompt = [] if words == '--prompt=' else ['--prompt=And']
                self.refused(2, expected, f'--load={self.path}', *prompt, *words.split())
        self.refused(2, ['--load FILE is missing'], '--prompt=And')
        self.refused(2, ['--prompt TEXT is missing'], f'--load={self.path}')

    def test_wrong_weights(self):
        path = os.path.join(self.folder, 'odd')
        with open(path, 'wb') as file:
            file.write(b'In the beginning God created the heaven and the earth.')
        self.refused(1, [path, 'safetensors'], f'--load={path}', '--prompt=And')
        with open(self.path, 'rb') as file:
            raw = file.read()
        with open(path, 'wb') as file:
            file.write(raw.replace(b'"layers":"8"', b'"layers":"9"').replace(b'"layers": "8"', b'"layers": "9"'))
        self.refused(1, [path, 'h.8.'], f'--load={path}', '--prompt=And', '--pp=2', '--tp=2')


if __name__ == '__main__':
    unittest.main()
