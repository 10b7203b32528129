#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""Models and weights as Hugging Face has them: `tpp train --model config.json --load weights` computes what a forward
in plain Python computes from the same files, for every family, number type and split."""

import json
import math
import os
import random
import shutil
import struct
import tempfile
import unittest

import hf_forward
from train_run import arguments, run, train

SEQ = 11
TEXT = bytes(range(97, 97 + SEQ + 1))  # one sequence and the byte after it: every step sees the same
LLAMA = {'model_type': 'llama', 'vocab_size': 260, 'hidden_size': 16, 'intermediate_size': 24,
         'num_hidden_layers': 4, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'rms_norm_eps': 1e-5}
LLAMA3 = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
          'original_max_position_embeddings': 64}
CONFIGS = {
    'gpt2': {'model_type': 'gpt2', 'vocab_size': 257, 'n_embd': 16, 'n_layer': 3, 'n_head': 4, 'n_positions': 20},
    'gpt2 untied': {'model_type': 'gpt2', 'vocab_size': 257, 'n_embd': 8, 'n_layer': 2, 'n_head': 4, 'n_inner': 20,
                    'n_positions': SEQ, 'tie_word_embeddings': False},
    'llama': {**LLAMA, 'num_key_value_heads': None},
    'llama 3': {**LLAMA, 'rope_theta': 500000.0, 'rope_scaling': LLAMA3, 'tie_word_embeddings': True,
                'head_dim': 16},
    'llama, biases': {**LLAMA, 'attention_bias': True, 'mlp_bias': True, 'rope_scaling': {'type': 'linear',
                                                                                          'factor': 2.0}},
    'llama, partial': {**LLAMA, 'head_dim': 8, 'rope_parameters': {'rope_type': 'default', 'rope_theta': 100.0,
                                                                   'partial_rotary_factor': 0.5}},
    'mistral': {**LLAMA, 'model_type': 'mistral', 'num_key_value_heads': 1, 'sliding_window': 3},
    'qwen2': {**LLAMA, 'model_type': 'qwen2', 'use_sliding_window': True, 'sliding_window': 2, 'max_window_layers': 3},
    'qwen3': {**LLAMA, 'model_type': 'qwen3', 'head_dim': 6, 'rope_theta': 1000000, 'tie_word_embeddings': True},
}
LAYOUTS = [{}, {'tp': 2}, {'tp': 4, 'pp': 2}, {'pp': 2}]


def shapes(config):
    """{name: shape} of all tensors."""
    if config['model_type'] == 'gpt2':
        h, f = config['n_embd'], config.get('n_inner') or 4 * config['n_embd']
        out = {'transformer.wte.weight': [config['vocab_size'], h],
               'transformer.wpe.weight': [config['n_positions'], h],
               'transformer.ln_f.weight': [h], 'transformer.ln_f.bias': [h]}
        for i in range(config['n_layer']):
            for name, shape in {'ln_1.weight': [h], 'ln_1.bias': [h], 'attn.c_attn.weight': [h, 3 * h],
                                'attn.c_attn.bias': [3 * h], 'attn.c_proj.weight': [h, h], 'attn.c_proj.bias': [h],
                                'ln_2.weight': [h], 'ln_2.bias': [h], 'mlp.c_fc.weight': [h, f], 'mlp.c_fc.bias': [f],
                                'mlp.c_proj.weight': [f, h], 'mlp.c_proj.bias': [h]}.items():
                out[f'transformer.h.{i}.{name}'] = shape
        tied = config.get('tie_word_embeddings', True)
        return out if tied else {**out, 'lm_head.weight': [config['vocab_size'], h]}
    h, f, heads = config['hidden_size'], config['intermediate_size'], config['num_attention_heads']
    cols = config.get('head_dim') or h // heads
    q, kv = heads * cols, (config['num_key_value_heads'] or heads) * cols
    out = {'model.embed_tokens.weight': [config['vocab_size'], h], 'model.norm.weight': [h]}
    qkv_bias = config.get('attention_bias') or config['model_type'] == 'qwen2'
    for i in range(config['num_hidden_layers']):
        block = {'input_layernorm.weight': [h], 'post_attention_layernorm.weight': [h],
                 'self_attn.q_proj.weight': [q, h], 'self_attn.k_proj.weight': [kv, h],
                 'self_attn.v_proj.weight': [kv, h], 'self_attn.o_proj.weight': [h, q],
                 'mlp.gate_proj.weight': [f, h], 'mlp.up_proj.weight': [f, h], 'mlp.down_proj.weight': [h, f]}
        if qkv_bias:
            block |= {'self_attn.q_proj.bias': [q], 'self_attn.k_proj.bias': [kv], 'self_attn.v_proj.bias': [kv]}
        if config.get('attention_bias'):
            block['self_attn.o_proj.bias'] = [h]
        if config.get('mlp_bias'):
            block |= {'mlp.gate_proj.bias': [f], 'mlp.up_proj.bias': [f], 'mlp.down_proj.bias': [h]}
        if config['model_type'] == 'qwen3':
            block |= {'self_attn.q_norm.weight': [cols], 'self_attn.k_norm.weight': [cols]}
        out |= {f'model.layers.{i}.{name}': shape for name, shape in block.items()}
    tied = config.get('tie_word_embeddings', False)
    return out if tied else {**out, 'lm_head.weight': [config['vocab_size'], h]}


def draw(config, seed=1):
    """{name: (shape, numbers)} that every type holds exactly: eighths of small whole numbers."""
    source = random.Random(seed)
    return {name: (shape, [(8 if 'norm' in name or '.ln_' in name else 0) / 8 + source.randrange(-6, 7) / 8
                           for _ in range(math.prod(shape))]) for name, shape in shapes(config).items()}


def pack(numbers, dtype):
    if dtype == 'BF16':
        return b''.join(struct.pack('<f', x)[2:] for x in numbers)
    return struct.pack(f'<{len(numbers)}{ {"F16": "e", "F32": "f", "F64": "d"}[dtype]}', *numbers)


def write(path, tensors, dtype):
    header, data = {'__metadata__': {'format': 'pt'}}, b''
    for name, (shape, numbers) in tensors.items():
        raw = pack(numbers, dtype)
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)


def read_f64(path):
    with open(path, 'rb') as file:
        raw = file.read()
    length, = struct.unpack('<Q', raw[:8])
    header = json.loads(raw[8:8 + length])
    out = {}
    for name, entry in header.items():
        if name != '__metadata__':
            begin, end = (8 + length + at for at in entry['data_offsets'])
            out[name] = (entry['shape'], list(struct.unpack(f'<{(end - begin) // 8}d', raw[begin:end])))
    return out


def nested(tensors):
    """Matrices as lists of rows."""
    return {name: numbers if len(shape) == 1 else
            [numbers[r * shape[1]:(r + 1) * shape[1]] for r in range(shape[0])]
            for name, (shape, numbers) in tensors.items()}


class Families(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        with open(self.at('text'), 'wb') as file:
            file.write(TEXT)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def at(self, name):
        return os.path.join(self.folder, name)

    def options(self, config, **more):
        with open(self.at('config.json'), 'w', encoding='utf-8') as file:
            json.dump(config, file)
        return {'layers': False, 'hidden': False, 'heads': False, 'data': self.at('text'), 'seq': SEQ, 'batch': 1,
                'micro_batches': 1, 'steps': 1, 'lr': 0, 'dtype': 'float64', 'model': self.at('config.json'),
                'load': self.at('model.safetensors'), **more}

    def refused(self, expected, config, **more):
        done = run('train', *arguments(self.options(config, quiet=True, **more)))
        self.assertIn(done.returncode, (1, 2), done.stderr)
        self.assertTrue(done.stderr.startswith('tpp train: ') and done.stderr.count('\n') == 1, done.stderr)
        for part in expected:
            self.assertIn(part, done.stderr)

    def test_every_family_and_split(self):
        for name, config in CONFIGS.items():
            tensors = draw(config)
            write(self.at('model.safetensors'), tensors, 'F64')
            want = hf_forward.loss(config, nested(tensors), TEXT[:-1], TEXT[1:])
            for layout in LAYOUTS:
                with self.subTest(name, **layout):
                    result = train(**self.options(config, save=self.at('again'), **layout))
                    self.assertAlmostEqual(result['steps']['loss'][0] / want, 1, delta=1e-12)
                    self.assertEqual(result['parameters'], sum(math.prod(s) for s in shapes(config).values()))
                    self.assertEqual(read_f64(self.at('again')), tensors)

    def test_saved_config(self):
        """The written config.json is the model that was read, and trains as it did."""
        for name, config in CONFIGS.items():
            with self.subTest(name):
                write(self.at('model.safetensors'), draw(config), 'F64')
                want = train(**self.options(config, save_config=self.at('second.json')))
                again = train(**{**self.options(config), 'model': self.at('second.json')})
                self.assertEqual(again['steps']['loss_hex'], want['steps']['loss_hex'])
                with open(self.at('second.json'), encoding='utf-8') as file:
                    written = json.load(file)
                for field, value in config.items():
                    if not field.startswith('rope') and value is not None:
                        self.assertEqual(written[field], value)
        options = {**self.options(LLAMA), 'model': False, 'load': False, 'family': 'qwen3', 'window': 3, 'tied': True}
        want = train(**options, save_config=self.at('third.json'), save=self.at('third'))
        again = train(**{**self.options(LLAMA), 'model': self.at('third.json'), 'load': self.at('third')})
        self.assertEqual(again['steps']['loss_hex'], want['steps']['loss_hex'])

    def test_types(self):
        config = CONFIGS['qwen3']
        tensors = draw(config)
        write(self.at('model.safetensors'), tensors, 'F64')
        want = {dtype: train(**self.options(config, dtype=dtype))['steps']['loss_hex']
                for dtype in ('float64', 'float32', 'bfloat16')}
        for stored in ('F32', 'BF16', 'F16'):
            write(self.at('model.safetensors'), tensors, stored)
            for dtype, loss in want.items():
                with self.subTest(stored=stored, dtype=dtype):
                    self.assertEqual(train(**self.options(config, dtype=dtype))['steps']['loss_hex'], loss)

    def test_large_matrices(self):
        """Wider than the tiles that are read at a time."""
        config = {**LLAMA, 'hidden_size': 136, 'intermediate_size': 200, 'head_dim': 34, 'num_hidden_layers': 1}
        tensors = draw(config)
        write(self.at('model.safetensors'), tensors, 'BF16')
        for layout in ({}, {'tp': 2}, {'tp': 4}):
            train(**self.options(config, save=self.at('again'), **layout))
            self.assertEqual(read_f64(self.at('again')), tensors)

    def test_index_and_folder(self):
        config = CONFIGS['llama 3']
        tensors = draw(config)
        write(self.at('model.safetensors'), tensors, 'F32')
        want = train(**self.options(config))['parameters_fnv1a']
        self.assertEqual(train(**self.options(config, load=self.folder))['parameters_fnv1a'], want)
        names = sorted(tensors)
        parts = {'model-00001-of-00002.safetensors': names[::2], 'model-00002-of-00002.safetensors': names[1::2]}
        for file, part in parts.items():
            write(self.at(file), {name: tensors[name] for name in part}, 'F16')
        place = {name: file for file, part in parts.items() for name in part}
        self.index(place)
        for load in (self.folder, self.at('model.safetensors.index.json')):
            self.assertEqual(train(**self.options(config, load=load, tp=2))['parameters_fnv1a'], want)
        self.index({**place, names[0]: 'model-00002-of-00002.safetensors'})
        self.refused([names[0], 'model-00002-of-00002.safetensors', 'is not'], config, load=self.folder)
        self.index({**place, names[0]: '../secret'})
        self.refused(['../secret'], config, load=self.folder)
        self.index({**place, names[0]: 7})
        self.refused([names[0], 'no text'], config, load=self.folder)
        self.index(None)
        self.refused(['weight_map'], config, load=self.folder)

    def index(self, place):
        with open(self.at('model.safetensors.index.json'), 'w', encoding='utf-8') as file:
            json.dump({'metadata': {}, 'weight_map': place}, file)

    def test_files_of_others(self):
        """Without the model's prefix, with masks and frequencies, with the tied table a second time."""
        config = CONFIGS['gpt2']
        tensors = draw(config)
        write(self.at('model.safetensors'), tensors, 'F32')
        want = train(**self.options(config))['parameters_fnv1a']
        bare = {name.removeprefix('transformer.'): tensor for name, tensor in tensors.items()}
        bare |= {'h.0.attn.bias': ([1, 1, 2, 2], [1, 0, 1, 1]), 'h.1.attn.masked_bias': ([], [-1e4]),
                 'lm_head.weight': tensors['transformer.wte.weight']}
        write(self.at('model.safetensors'), bare, 'F32')
        self.assertEqual(train(**self.options(config))['parameters_fnv1a'], want)
        shape, numbers = bare['lm_head.weight']
        write(self.at('model.safetensors'), {**bare, 'lm_head.weight': (shape, [-x for x in numbers])}, 'F32')
        self.refused(['lm_head.weight', 'has not'], config)

    def test_misfits(self):
        config = CONFIGS['qwen2']
        tensors = draw(config)
        for name, shape in (('model.layers.1.mlp.up_proj.weight', [16, 24]), ('model.norm.weight', [1, 16]),
                            ('model.embed_tokens.weight', [256, 16])):
            broken = {**tensors, name: (shape, tensors[name][1][:math.prod(shape)])}
            write(self.at('model.safetensors'), broken, 'F32')
            self.refused([name, str(shape), str(tensors[name][0])], config)
        write(self.at('model.safetensors'), tensors, 'F32')
        self.refused(['q_proj.bias', 'has not'], {**config, 'model_type': 'llama'})
        self.refused(['has no tensor', 'self_attn.q_norm.weight'], {**config, 'model_type': 'qwen3', 'head_dim': 4})
        self.refused(['model.layers.3.', 'has not'], {**config, 'num_hidden_layers': 3})

    def test_models_that_are_refused(self):
        good = CONFIGS['llama']
        self.refused(['--model', 'config.json: model_type = "mixtral"', '"mistral"'], {**good, 'model_type': 'mixtral'})
        self.refused(['vocabulary of 255', '256'], {**good, 'vocab_size': 255})
        self.refused(['--seq 11', 'positions', '1 to 7'], {**CONFIGS['gpt2'], 'n_positions': 7})
        self.refused(['--layers', '--model', 'one of them'], good, layers=4)
        self.refused(['--rope', '--model'], good, rope=100)
        self.refused(['--model', 'nowhere', 'No such file'], good, model=self.at('nowhere'))
        self.refused(['--kv-heads 2', '--tp 3'], {**good, 'num_attention_heads': 6, 'num_key_value_heads': 2,
                                                  'hidden_size': 18, 'intermediate_size': 24}, tp=3)
        self.refused(['--ffn 25', '--tp 2'], {**good, 'intermediate_size': 25}, tp=2)


if __name__ == '__main__':
    unittest.main()
