#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""Holds the layers of lib/, and what each folder may call, against the source text.

A file of lib/ includes public headers, headers of its own folder, and headers of the folders in MAY.
"""

import os
import re
import sys

from c_text import close, line_of, without_comments, without_strings

MAY = {
    'base': '',
    'kern': 'base', 'comm': 'base', 'sched': 'base', 'trace': 'base', 'cost': 'base',
    'tp': 'base kern comm',
    'exec': 'base sched comm trace',
    'layout': 'base cost sched exec',
    'stage': 'base kern comm sched trace cost tp exec layout',
    'io': '', 'mpi': '',
}
# Public headers that a folder is not to know of.
NEVER = {'sched': 'comm layer exec tpp', 'exec': 'layer tpp', 'tp': 'schedule exec tpp'}
# System headers, and calls, that only some files may use.
ONLY = {'cblas.h': r'lib/kern/gemm[^/]*\.c', 'pthread.h': r'lib/base/.*', 'mpi.h': r'lib/mpi/.*',
        'jansson.h': r'lib/io/.*'}
# The second library stands on public headers, so it has a file of its own for memory.
ALLOCATORS = ('lib/base/alloc.c', 'lib/io/io_memory.c')
MEMORY = r'malloc|calloc|realloc|aligned_alloc|posix_memalign|free'
# Files are opened by the library that is there for it.
FILES = r'open|openat|creat|fopen|freopen|mmap|rename|unlink'
PROCESS = (r'v?f?printf|puts|fputs|putchar|perror|exit|_Exit|quick_exit|abort|'
           r'getenv|secure_getenv|setenv|unsetenv|putenv')
# Names that every folder may have.
COMMON = {'run.sh', 'CMakeLists.txt', 'README.md', '__init__.py'}


def calls(names, code):
    """Calls of functions, not of a struct's member such as ops->abort(...)."""
    return re.finditer(rf'(?<![\w.>])({names})\s*\(', code)


def library_include(path, quote, target):
    """The rule that an #include of lib/ breaks, or None."""
    folder = path.split('/')[1]
    if quote == '<':
        public = re.fullmatch(r'tpp/(\w+)\.h', target)
        if public and public[1] == 'io' and folder != 'io':
            return f'{folder}/ belongs to the core, which must not know <{target}>'
        if public and public[1] in NEVER.get(folder, '').split():
            return f'{folder}/ must not know <{target}>'
        if target in ONLY and not re.fullmatch(ONLY[target], path):
            return f'<{target}> only in {ONLY[target]}'
        return None
    other = target.split('/')[0] if '/' in target else folder
    if folder not in MAY:
        return f'folder {folder}/ is not in the table of layers'
    if other != folder and other not in MAY[folder].split():
        return f'{folder}/ must not include {other}/ (may: {MAY[folder] or "nothing"})'
    return None


def example_include(path, quote, target, files):
    """Examples see the public headers, the system's, and those of their program."""
    beside = os.path.normpath(f'{os.path.dirname(path)}/{target}')
    if quote == '"' and beside not in files:
        return f'examples include <tpp/...> and system headers, not "{target}"'
    if quote == '<' and target.startswith('tpp/') and f'include/{target}' not in files:
        return f'<{target}> is no public header'
    return None


def check_file(path, text, files):
    library = path.startswith('lib/')
    for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)', without_comments(text), re.M):
        rule = library_include(path, m[1], m[2]) if library else example_include(path, m[1], m[2], files)
        if rule:
            yield path, line_of(text, m.start()), rule
    if not library:
        return
    code = without_strings(text)
    found = [(m, f'{m[1]}() has no place in lib/') for m in calls(PROCESS, code)]
    if path not in ALLOCATORS:
        found += [(m, f'{m[1]}() only in {" and ".join(ALLOCATORS)}') for m in calls(MEMORY, code)]
    if not path.startswith('lib/io/'):
        found += [(m, f'{m[1]}() only in lib/io/') for m in calls(FILES, code)]
    if path.startswith('lib/sched/'):
        found += [(m, f'sched/ is integers only, no {m[0]}') for m in re.finditer(r'\b(?:float|double)\b', code)]
    for m, rule in found:
        yield path, line_of(code, m.start()), rule


def check(files):
    """All breaches of a tree, given as {path: text}."""
    seen = {}
    for path in sorted(files):
        name = os.path.basename(path)
        if name in seen and name not in COMMON:
            yield path, 1, f'{seen[name]} has the same file name'
        seen[name] = path
        if re.match(r'(lib|examples)/.*\.[ch]$', path):
            yield from check_file(path, files[path], files)


def self_test():
    def rules(path, text, **more):
        return [rule for _, _, rule in check({path: text, 'include/tpp/comm.h': '', **more})]

    good = {'lib/kern/gemm_x.c': '#include "base/alloc.h"\n#include "gemm.h"\n#include <cblas.h>\n',
            'lib/base/alloc.c': 'free(p); /* malloc(1) */', 'lib/base/t.c': '#include <pthread.h>',
            'lib/exec/a.c': 's = "exit(1)"; ops->abort(c); ops.free(c); tpp_comm_abort(c); snprintf(b, 1, "");',
            'lib/io/io_memory.c': 'free(p);', 'lib/io/a.c': '#include <jansson.h>\n#include "b.h"\nopen(p, 0);',
            'lib/stage/a.c': '#include "tp/x.h"\n#include "exec/x.h"', 'examples/a.c': '#include <tpp/comm.h>'}
    for path, text in good.items():
        assert not rules(path, text), (path, rules(path, text))
    bad = [('lib/base/a.c', '#include "comm/x.h"'), ('lib/kern/a.c', '#include "comm/x.h"'),
           ('lib/tp/a.c', '#include "exec/x.h"'), ('lib/exec/a.c', '#include "tp/x.h"'),
           ('lib/exec/a.c', '#include <tpp/layer.h>'), ('lib/sched/a.c', '#include <tpp/comm.h>'),
           ('lib/layout/a.c', '#include "stage/x.h"'), ('lib/io/a.c', '#include "base/x.h"'),
           ('lib/new/a.c', '#include "base/x.h"'), ('lib/sched/a.c', 'double x;'),
           ('lib/io/a.c', '#include "tp/x.h"'), ('lib/io/a.c', 'free(p);'), ('lib/stage/a.c', '#include "io/x.h"'),
           ('lib/tp/a.c', '#include <jansson.h>'), ('lib/tp/a.c', 'f = fopen(p, "r");'),
           ('lib/tp/a.c', '#include <tpp/io.h>'),
           ('lib/kern/a.c', '#include <cblas.h>'), ('lib/comm/a.c', '# include <pthread.h>'),
           ('lib/tp/a.c', 'p = malloc (8);'), ('lib/tp/a.c', 'free(p);'), ('lib/tp/a.c', 'printf("x");'),
           ('lib/tp/a.c', 'fprintf(stderr, "x");'), ('lib/tp/a.c', 'if (x) abort();'),
           ('lib/base/a.c', 'getenv("X");'), ('examples/a.c', '#include "base/alloc.h"'),
           ('examples/tpp/a.c', '#include <tpp/private.h>'), ('lib/tp/comm.h', '')]
    for path, text in bad:
        assert len(rules(path, text)) == 1, (path, text, rules(path, text))
    assert [line for _, line, _ in check({'lib/tp/a.c': '/*\n*/\nexit(1);'})] == [3]


def read_tree(root):
    files = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f[0] != '.' and f not in ('build', 'out', '__pycache__')]
        for name in names:
            path = os.path.join(folder, name)
            with open(path, encoding='utf-8', errors='replace') as file:
                files[os.path.relpath(path, root)] = file.read() if name.endswith(('.c', '.h')) else ''
    return files


if __name__ == '__main__':
    self_test()
    close(list(check(read_tree(os.environ.get('TPP_SOURCE_DIR', sys.path[0] + '/../..')))))
