#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""The golden files are what the definitions give, and nothing else lies beside them."""

import os
import sys

ROOT = os.environ.get('TPP_SOURCE_DIR', os.path.join(os.path.dirname(__file__), '..', '..'))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'support'))

from sched_golden import FILES, text  # noqa: E402

folder = os.path.join(ROOT, 'tests', 'data', 'schedules')
failures = 0
for name, ranks in FILES.items():
    with open(os.path.join(folder, name), encoding='ascii') as file:
        if file.read() != text(ranks):
            print(f'{name} is not what sched_golden.py writes')
            failures += 1
for name in sorted(set(os.listdir(folder)) - set(FILES)):
    if name.endswith('.txt'):
        print(f'{name} has no definition in sched_golden.py')
        failures += 1
sys.exit(failures > 0)
