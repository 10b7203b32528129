# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""What the tests of the pipeline's commands share."""

import json
import re
import shlex
import subprocess

from train_run import TPP, run


def say(command, text=None, timeout=120):
    """'simulate 1f1b --stages 4' as a run of tpp; `text` is its standard input."""
    return subprocess.run([TPP, *shlex.split(command)], input=text, capture_output=True, text=True, timeout=timeout,
                          check=False)


def good(command, text=None, timeout=120):
    """What it prints; it has to succeed and say nothing else."""
    done = say(command, text, timeout)
    assert (done.returncode, done.stderr) == (0, ''), (command, done.returncode, done.stderr)
    return done.stdout


def result(command, text=None, timeout=120):
    return json.loads(good(command + ' --json', text, timeout))


def check_words(test, name, wrong):
    """Every bad input gives one sentence with these parts, and exit code 2."""
    for words, expected in wrong:
        with test.subTest(words):
            done = say(f'{name} {words}')
            test.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
            test.assertTrue(done.stderr.startswith(f'tpp {name}: ') and done.stderr.count('\n') == 1, done.stderr)
            for part in expected:
                test.assertIn(part, done.stderr)


def check_help(test, name, options):
    """Both ways to ask for help, all options in it, narrow enough."""
    text = good(f'{name} --help')
    test.assertEqual(text, good(f'help {name}'))
    test.assertEqual(set(re.findall(r'^  (?:-o, )?--([\w-]+)', text, re.M)), set(options.split()))
    test.assertLess(max(map(len, text.split('\n'))), 101)


def examples(name):
    """The command lines that the help shows, without "tpp"."""
    text = run(name, '--help').stdout.replace('\\\n', '')  # of lines that go on
    lines = re.findall(r'^  tpp (.*)$', text, re.M)
    assert len(lines) >= 3, lines
    return lines
