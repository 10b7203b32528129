# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""What the tests of `tpp train` share: the program, the text, a model that trains in a moment."""

import json
import os
import subprocess

SOURCE = os.environ.get('TPP_SOURCE_DIR', os.path.join(os.path.dirname(__file__), '..', '..'))
TPP = os.path.join(os.environ.get('TPP_BUILD_DIR', os.path.join(SOURCE, 'build')), 'bin', 'tpp')
TEXT = os.path.join(SOURCE, 'tests', 'data', 'text', 'kjv_excerpt.txt')

TINY = {'data': TEXT, 'layers': 8, 'hidden': 32, 'heads': 4, 'seq': 16, 'batch': 8, 'micro_batches': 4, 'steps': 12}


def arguments(options):
    """{'micro_batches': 4, 'json': True, 'help': False} as --micro-batches=4 --json."""
    named = [('--' + name.replace('_', '-'), value) for name, value in options.items()]
    return [name if value is True else f'{name}={value}' for name, value in named if value is not False]


def run(*words, timeout=120):
    return subprocess.run([TPP, *words], capture_output=True, text=True, timeout=timeout, check=False)


def train(**options):
    """The JSON object of a run that has to succeed."""
    done = run('train', *arguments({**TINY, 'json': True, 'quiet': True, **options}))
    assert done.returncode == 0, (options, done.returncode, done.stderr)
    assert options.get('compare') or done.stderr == '', done.stderr  # with --json the table goes there
    return json.loads(done.stdout)


def bits(result):
    """Everything that has to be the same under every layout."""
    steps = result['steps']
    return {**{name: steps[name] for name in ('loss_hex', 'micro_loss_hex', 'grad_norm_hex')},
            'parameters': result['parameters_fnv1a']}


def largest_relative(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b, strict=True))
