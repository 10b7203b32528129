#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""`tpp train --save` and `--load`: the file is safetensors with GPT-2's names, fits every split, and what does not
fit is told."""

import json
import math
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import unittest

from train_run import TINY, TPP, arguments, bits, run, train

LAYOUTS = [{}, {'tp': 4}, {'pp': 4}, {'tp': 2, 'pp': 2}, {'pp': 2, 'chunks': 2, 'schedule': 'interleaved'},
           {'tp': 4, 'pp': 2, 'chunks': 4, 'schedule': 'interleaved', 'executor': 'serial'}]
SIZES = {'layers': '8', 'hidden': '32', 'heads': '4', 'kv_heads': '4', 'seq': '16', 'vocab': '256', 'act': 'gelu',
         'norm': 'layer', 'family': 'gpt2'}
TYPES = {'BF16': ('H', 2), 'F32': ('f', 4), 'F64': ('d', 8)}


def read(path):
    """Header and data of a safetensors file, by the words of the format alone."""
    with open(path, 'rb') as file:
        raw = file.read()
    length, = struct.unpack('<Q', raw[:8])
    assert raw[8:9] == b'{' and 8 + length <= len(raw)

    def no_duplicates(pairs):
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    header = json.loads(raw[8:8 + length].decode(), object_pairs_hook=no_duplicates)
    data, at = raw[8 + length:], 0
    tensors = {name: entry for name, entry in header.items() if name != '__metadata__'}
    for entry in sorted(tensors.values(), key=lambda e: e['data_offsets']):
        begin, end = entry['data_offsets']
        assert begin == at and end - begin == math.prod(entry['shape']) * TYPES[entry['dtype']][1]
        at = end
    assert at == len(data)
    return header, data


def write(path, header, data):
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)


def numbers(header, data, name):
    begin, end = header[name]['data_offsets']
    letter, width = TYPES[header[name]['dtype']]
    return struct.unpack(f'<{(end - begin) // width}{letter}', data[begin:end])


def fingerprint(header, data):
    """The program's own number of all parameters, from the file: FNV-1a in the order of the model."""
    order = ['transformer.wte.weight', 'transformer.wpe.weight']
    for layer in range(int(header['__metadata__']['layers'])):
        order += [f'transformer.h.{layer}.{part}' for part in (
            'ln_1.weight', 'ln_1.bias', 'attn.c_attn.weight', 'attn.c_proj.weight', 'attn.c_attn.bias',
            'attn.c_proj.bias', 'ln_2.weight', 'ln_2.bias', 'mlp.c_fc.weight', 'mlp.c_proj.weight', 'mlp.c_fc.bias',
            'mlp.c_proj.bias')]
    order += ['transformer.ln_f.weight', 'transformer.ln_f.bias', 'lm_head.weight']
    assert sorted(order) == sorted(name for name in header if name != '__metadata__')
    value = 0xcbf29ce484222325
    for name in order:
        values = numbers(header, data, name)
        for byte in struct.pack(f'<{len(values)}{TYPES[header[name]["dtype"]][0]}', *values):
            value = (value ^ byte) * 0x100000001b3 % 2**64
    return f'{value:016x}'


class Weights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.path = os.path.join(cls.folder, 'w.safetensors')
        cls.saved = train(blocks=4, tp=2, pp=2, save=cls.path)
        assert os.listdir(cls.folder) == ['w.safetensors']

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def beside(self, name):
        return os.path.join(self.folder, name)


class Files(Weights):
    def test_format(self):
        header, data = read(self.path)
        self.assertEqual(header['__metadata__'], {'format': 'pt', **SIZES})
        shapes = {name: entry['shape'] for name, entry in header.items() if name != '__metadata__'}
        self.assertEqual(len(shapes), 2 + 8 * 12 + 3)
        for name, shape in {'wte.weight': [256, 32], 'wpe.weight': [16, 32], 'ln_f.weight': [32], 'ln_f.bias': [32],
                            'h.7.ln_1.weight': [32], 'h.0.attn.c_attn.weight': [32, 96],
                            'h.0.attn.c_attn.bias': [96], 'h.3.attn.c_proj.weight': [32, 32],
                            'h.3.mlp.c_fc.weight': [32, 128], 'h.3.mlp.c_fc.bias': [128],
                            'h.3.mlp.c_proj.weight': [128, 32], 'h.3.mlp.c_proj.bias': [32]}.items():
            self.assertEqual(shapes['transformer.' + name], shape, name)
        self.assertEqual(shapes['lm_head.weight'], [256, 32])
        self.assertEqual({entry['dtype'] for name, entry in header.items() if name != '__metadata__'}, {'F32'})
        self.assertEqual(fingerprint(header, data), self.saved['parameters_fnv1a'])

    def test_saving_changes_nothing(self):
        self.assertEqual(bits(self.saved), bits(train(blocks=4)))

    def test_same_file_from_every_layout(self):
        with open(self.path, 'rb') as file:
            first = file.read()
        for layout in LAYOUTS:
            path = self.beside('again')
            train(blocks=4, save=path, **layout)
            with open(path, 'rb') as file:
                self.assertEqual(file.read(), first, layout)

    def test_small_shapes(self):
        """A sequence of one, a width of one: what is a vector is told by the name, not by the shape."""
        shape = {'layers': 1, 'hidden': 1, 'heads': 1, 'seq': 1, 'save': self.beside('small'), 'dtype': 'float64'}
        first = train(**shape)
        header, data = read(self.beside('small'))
        self.assertEqual(header['transformer.wpe.weight']['shape'], [1, 1])
        self.assertEqual(header['transformer.ln_f.weight']['shape'], [1])
        self.assertEqual(header['lm_head.weight']['dtype'], 'F64')
        self.assertEqual(fingerprint(header, data), first['parameters_fnv1a'])

    def test_bfloat16(self):
        """Two bytes a number, the upper half of a float32; loaded again, nothing has changed."""
        first = train(dtype='bfloat16', blocks=4, save=self.beside('half'))
        header, data = read(self.beside('half'))
        self.assertEqual({entry['dtype'] for name, entry in header.items() if name != '__metadata__'}, {'BF16'})
        begin, end = header['transformer.ln_f.weight']['data_offsets']
        halves = struct.unpack(f'<{(end - begin) // 2}H', data[begin:end])
        weight = [struct.unpack('<f', struct.pack('<I', half << 16))[0] for half in halves]
        self.assertTrue(all(0.5 < x < 2 for x in weight), weight)
        again = train(dtype='bfloat16', blocks=4, load=self.beside('half'), lr=0, tp=2)
        self.assertEqual(again['parameters_fnv1a'], first['parameters_fnv1a'])

    def test_interrupt(self):
        options = {**TINY, 'steps': 1000000, 'tp': 2, 'pp': 2, 'json': True, 'save': self.beside('stopped')}
        with subprocess.Popen([TPP, 'train', *arguments(options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            while 'step     1/' not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)
            watchdog.cancel()
        self.assertEqual(process.returncode, 130)
        self.assertEqual(fingerprint(*read(self.beside('stopped'))), json.loads(out)['parameters_fnv1a'])

    def test_report(self):
        done = run('train', *arguments({**TINY, 'steps': 1, 'save': self.beside('r'), 'report': True}))
        self.assertIn(f'Weights (safetensors): {self.beside("r")}\n', done.stdout)


class Loading(Weights):
    def test_next_steps_under_every_layout(self):
        reference = bits(train(blocks=4, load=self.path))
        self.assertNotEqual(reference['loss_hex'], bits(self.saved)['loss_hex'])
        for layout in LAYOUTS:
            with self.subTest(**layout):
                self.assertEqual(bits(train(blocks=4, load=self.path, **layout)), reference)

    def test_what_was_saved(self):
        for layout in LAYOUTS:
            again = train(blocks=4, load=self.path, lr=0, steps=1, seed=2, **layout)
            self.assertEqual(again['parameters_fnv1a'], self.saved['parameters_fnv1a'])

    def test_better_than_the_seed(self):
        path = self.beside('long')
        train(steps=60, save=path)
        self.assertLess(train(load=path, steps=1)['steps']['loss'][0], train(steps=1)['steps']['loss'][0] - 1)

    def test_compare(self):
        compare = train(blocks=4, tp=2, pp=2, load=self.path, compare=True)['compare']
        self.assertTrue(compare['losses_equal_bits'] and compare['params_equal_bits'])

    def test_onto_itself(self):
        path = self.beside('itself')
        shutil.copy(self.path, path)
        result = train(load=path, save=path, steps=1)
        self.assertEqual(fingerprint(*read(path)), result['parameters_fnv1a'])

    def test_failed_run_saves_nothing(self):
        header, data = read(self.path)
        write(self.beside('nan'), header, struct.pack('<f', math.nan) * (len(data) // 4))
        done = run('train', *arguments({**TINY, 'load': self.beside('nan'), 'save': self.beside('never')}))
        self.assertEqual(done.returncode, 1)
        self.assertIn('loss nan', done.stderr.replace('-nan', 'nan'))
        self.assertFalse(os.path.exists(self.beside('never')))

    def test_without_sizes(self):
        """A file of another program, misaligned and in another order."""
        header, data = read(self.path)
        del header['__metadata__']
        path = self.beside('foreign')
        write(path, dict(sorted(header.items(), reverse=True)), data)
        with open(path, 'rb') as file:
            raw = file.read()
        length, = struct.unpack('<Q', raw[:8])
        spaces = (9 - (8 + length) % 4) % 4  # the first number stands at 1 behind a multiple of 4
        with open(path, 'wb') as file:
            file.write(struct.pack('<Q', length + spaces) + raw[8:8 + length] + b' ' * spaces + data)
        self.assertEqual(train(load=path, lr=0, steps=1)['parameters_fnv1a'], self.saved['parameters_fnv1a'])


class Misfits(Weights):
    def refused(self, expected, code=1, **options):
        done = run('train', *arguments({**TINY, 'quiet': True, 'load': self.beside('odd'), **options}))
        self.assertEqual((done.returncode, done.stdout), (code, ''), done.stderr)
        self.assertTrue(done.stderr.startswith('tpp train: ') and done.stderr.count('\n') == 1, done.stderr)
        for part in [self.beside('odd') if 'load' not in options else options['load'], *expected]:
            self.assertIn(part, done.stderr)

    def test_other_sizes(self):
        for option, value in (('layers', 4), ('hidden', 64), ('heads', 8), ('seq', 32)):
            self.refused([f'{option} {SIZES[option]}', f'--{option} here is {value}'], load=self.path,
                         **{option: value})
        self.refused(['act gelu', '--act here is relu'], load=self.path, act='relu')
        self.refused(['norm layer', '--norm here is rms'], load=self.path, norm='rms')
        self.refused(['heads 4', '--heads here is 2'], load=self.path, heads=2)
        self.refused(['kv_heads 4', '--kv-heads here is 2'], load=self.path, kv_heads=2)

    def test_shapes_without_sizes(self):
        header, data = read(self.path)
        del header['__metadata__']
        write(self.beside('odd'), header, data)
        self.refused(['transformer.wte.weight', '[256, 32]', '[256, 64]'], hidden=64)
        self.refused(['transformer.wpe.weight', '[16, 32]', '[32, 32]'], seq=32)
        self.refused(['transformer.h.4.', 'which the model has not'], layers=4)
        self.refused(['has no tensor transformer.h.8.ln_1.weight'], layers=9)

    def test_wrong_tensors(self):
        for name, shape, expected in (('lm_head.weight', [32, 256], ['[32, 256]', '[256, 32]']),
                                      ('transformer.ln_f.bias', [1, 32], ['[1, 32]', '[32]']),
                                      ('transformer.wte.weight', [2, 128, 32], ['[2, 128, 32]', '[256, 32]']),
                                      ('transformer.wte.weight', [256, 32, 1], ['[256, 32, 1]', '[256, 32]']),
                                      ('transformer.wte.weight', [1] * 200 + [8192], ['1, ...]', '[256, 32]']),
                                      ('transformer.h.1.mlp.c_fc.weight', [128, 32], ['[128, 32]', '[32, 128]'])):
            header, data = read(self.path)
            header[name]['shape'] = shape
            write(self.beside('odd'), header, data)
            self.refused([name, *expected])
        header, data = read(self.path)
        header['transformer.ln_f.weight']['dtype'] = 'I32'
        write(self.beside('odd'), header, data)
        self.refused(['transformer.ln_f.weight', 'I32', 'accepted: F32, F64, BF16, F16'])
        header['transformer.ln_f.weight']['dtype'] = 'U32'
        write(self.beside('odd'), header, data)
        self.refused(['transformer.ln_f.weight', 'U32'])

    def test_missing_and_additional(self):
        header, data = read(self.path)
        header['transformer.extra'] = header.pop('transformer.h.5.attn.c_proj.bias')
        write(self.beside('odd'), header, data)
        self.refused(['has no tensor transformer.h.5.attn.c_proj.bias'])
        header, data = read(self.path)
        header['transformer.extra'] = {'dtype': 'F32', 'shape': [0], 'data_offsets': [len(data), len(data)]}
        write(self.beside('odd'), header, data)
        self.refused(['transformer.extra', 'has not'])

    def test_truncated(self):
        with open(self.path, 'rb') as file:
            raw = file.read()
        for count, expected in ((len(raw) - 1, ['is it cut off?', 'tensor "']), (4000, ['is it cut off?']),
                                (7, ['7 bytes']), (0, ['0 bytes'])):
            with open(self.beside('odd'), 'wb') as file:
                file.write(raw[:count])
            self.refused(expected)
        with open(self.beside('odd'), 'wb') as file:
            file.write(raw + b'\0')
        self.refused(['the tensors end at'])
        with open(self.beside('odd'), 'wb') as file:
            file.write(b'In the beginning God created the heaven and the earth.')
        self.refused(['is it a safetensors file?'])


if __name__ == '__main__':
    unittest.main()
