# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""What the lint scripts share: C text without its comments, line numbers, and the closing of a run."""

import re
import sys

_TOKEN = re.compile(r'(//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(text):
    """As many characters and lines as `text`, all of them white."""
    return re.sub(r'[^\n]', ' ', text)


def without_comments(text):
    return _TOKEN.sub(lambda m: blank(m[0]) if m[1] else m[0], text)


def without_strings(text):
    """Neither comments nor the contents of literals."""
    return _TOKEN.sub(lambda m: blank(m[0]) if m[1] else m[0][0] + blank(m[0][1:-1]) + m[0][0], text)


def line_of(text, position):
    return text.count('\n', 0, position) + 1


def close(breaches):
    """Print breaches (path, line, rule), and end the script with what they mean."""
    for path, line, rule in breaches:
        print(f'{path}:{line}: {rule}')
    sys.exit(1 if breaches else 0)
