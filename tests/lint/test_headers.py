#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""Holds the public headers to the few constructs that bindings can be generated from.

These are: includes, integer #defines, opaque typedefs, fixed-width typedefs, anonymous enums with explicit
values, plain structs, named callback typedefs, and commented prototypes with named parameters.
"""

import glob
import os
import re
import sys

from c_text import blank, close, line_of, without_comments

TYPE = re.compile(r'void|char|float|double|u?int(8|16|32|64)_t|tpp_\w+')
SIZED = re.compile(r'\w+_(desc|ops|info|report|call)$')
INTEGER = re.compile(r'(0[xX][0-9a-fA-F]+|\d+|TPP_[A-Z0-9_]+|<<|>>|[-+|()~ ])+[uU]?')
FUNCTION = re.compile(r'(?P<returns>[^()]*?)(?P<name>\w+)\s*\((?P<parameters>.*)\)$', re.S)
POINTER = re.compile(r'(?P<returns>[^()]*?)\(\s*\*\s*(?P<name>\w+)\s*\)\s*\((?P<parameters>.*)\)$', re.S)


def split(text, separator):
    """Parts of `text` between separators that stand outside of brackets, as (offset, part)."""
    depth, start = 0, 0
    for i, c in enumerate(text + separator):
        if i == len(text) or (c == separator and depth == 0):
            part = text[start:i]
            if part.strip():
                yield start + len(part) - len(part.lstrip()), part.strip()
            start = i + 1
        depth += (c in '({[') - (c in ')}]')


def check_type(text, structs, by_value, named=True):
    """Rules broken by one field, parameter or (unnamed) returned type."""
    text, arrays = re.subn(r'\[\s*\w*\s*\]', '', text)
    words = [w for w in re.findall(r'\w+', text) if w not in ('const', 'struct')]
    if named:
        if len(words) < 2 and words != ['void']:
            yield f'`{text}` has no name'
        words = words[:-1] if len(words) > 1 else words
    kind = ' '.join(words)
    if not TYPE.fullmatch(kind):
        yield f'type `{kind}` is not one of fixed width'
    if not by_value and kind in structs and '*' not in text and not arrays:
        yield f'struct {kind} goes by pointer, not by value'


def check_function(m, structs):
    yield from check_type(m['returns'], structs, False, named=False)
    for _, parameter in split(m['parameters'], ','):
        if parameter == '...':
            yield 'variadic function'
        elif '(' in parameter:
            yield f'`{parameter}` needs a callback typedef'
        else:
            yield from check_type(parameter, structs, False)


def check_struct(name, body, structs):
    if '{' in body:
        yield f'struct {name} holds a union or a nested struct'
        return
    fields = [' '.join(field.split()) for _, field in split(body, ';')]
    if SIZED.match(name) and fields[:2] != ['uint32_t size', 'uint32_t flags']:
        yield f'sized struct {name} must begin with uint32_t size; uint32_t flags;'
    for field in fields:
        callback = POINTER.match(field)
        if callback:
            yield from check_function(callback, structs)
        elif ':' in field:
            yield f'bit-field `{field}`'
        elif re.search(r'\[\s*\]', field):
            yield f'array without a length `{field}`'
        else:
            yield from check_type(field.split(',')[0], structs, True)


def check_declaration(text, structs, commented):
    """Rules broken by one declaration without its semicolon."""
    if m := re.match(r'typedef\s+struct\s+(\w+)\s*\{(.*)\}\s*\w+$', text, re.S):
        yield from check_struct(m[1], m[2], structs)
    elif re.match(r'typedef\s+struct\s+\w+\s+\w+$', text):
        pass
    elif m := re.match(r'enum\s*\{(.*)\}$', text, re.S):
        for _, value in split(m[1], ','):
            if '=' not in value:
                yield f'enumerator {value} has no explicit value'
    elif re.match(r'(typedef\s+)?enum\b', text):
        yield 'enum must be anonymous, beside a typedef of fixed width'
    elif text.startswith('typedef') and (m := POINTER.match(text[7:].strip())):
        yield from check_function(m, structs)
    elif m := re.match(r'typedef\s+(\w+)\s+\w+$', text):
        yield from check_type(m[1], structs, True, named=False)
    elif '{' not in text and (m := FUNCTION.match(re.sub(r'^TPP_API\s+', '', text))):
        if not text.startswith('TPP_API '):
            yield f'{m["name"]} is declared without TPP_API'
        if not commented:
            yield f'{m["name"]} has no comment directly above'
        yield from check_function(m, structs)
    else:
        yield f'construct not allowed in a public header: {text.split(chr(10))[0]}'


def check_define(name, value):
    if value.startswith('('):
        yield f'function-like macro {name}'
    elif name != 'TPP_API' and value.strip() and not re.fullmatch(rf'\s+("[^"]*"|{INTEGER.pattern})\s*', value):
        yield f'macro {name} is not an integer'


def check(path, text, structs):
    """All breaches of one header."""
    code, conditions = without_comments(text), []
    for m in re.finditer(r'^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)', code, re.M):
        directive, rest = m[1], m[2]
        code = code[:m.start()] + blank(m[0]) + code[m.end():]
        if directive.startswith('if'):
            conditions.append((rest.strip(), m.start()))
        elif directive == 'endif':
            condition, start = conditions.pop()
            inside = re.sub(r'extern\s+"C"\s*\{|\}', '', code[start:m.start()])
            if inside.strip() and not re.fullmatch(r'TPP_\w+_H', condition):
                yield path, line_of(text, start), f'declarations under #if {condition}'
        elif directive == 'define':
            name, value = re.match(r'\s*(\w+)(.*)', rest, re.S).groups()
            for rule in check_define(name, value):
                yield path, line_of(text, m.start()), rule
    code = re.sub(r'extern\s+"C"\s*\{', lambda m: blank(m[0]), code)
    code = re.sub(r'^\}[ \t]*$', lambda m: blank(m[0]), code, flags=re.M)  # the end of extern "C"
    for start, declaration in split(code, ';'):
        commented = re.search(r'\*/[ \t]*\n[ \t]*\Z', text[:start]) is not None
        for rule in check_declaration(declaration, structs, commented):
            yield path, line_of(text, start), rule


def struct_names(texts):
    return {name for text in texts for name in re.findall(r'\bstruct\s+(\w+)', without_comments(text))}


GOOD = '''
#ifndef TPP_GOOD_H
#define TPP_GOOD_H
#include <stdint.h>
#if defined(__GNUC__)
#define TPP_API __attribute__((visibility("default")))
#endif
#ifdef __cplusplus
extern "C" {
#endif
#define TPP_BITS ((1 << 4) | TPP_MORE)
#define TPP_NAME "good"
typedef struct tpp_x tpp_x;
typedef int32_t tpp_kind;
enum { TPP_A = 1, /**< int a, b; */ TPP_B = TPP_A + 1 };
/** Int. */
typedef tpp_kind (*tpp_do_fn)(void *ctx, const char *text);
typedef struct tpp_x_desc {
    uint32_t size; /**< long; */
    uint32_t flags;
    double pair[2];
    tpp_kind (*run)(void *ctx, const tpp_x *x);
} tpp_x_desc;
/** Makes x. */
TPP_API tpp_kind tpp_x_create(tpp_x **out, const tpp_x_desc *desc, int64_t n);
/** Asks. */
TPP_API const char *tpp_x_name(void);
#ifdef __cplusplus
}
#endif
#endif
'''
BAD = {
    '#define TPP_MAX(a, b) 1': 'function-like macro',
    '#define TPP_PI 3.14': 'not an integer',
    'enum tpp_e { TPP_A = 1 };': 'must be anonymous',
    'typedef enum { TPP_A = 1 } tpp_e;': 'must be anonymous',
    'enum { TPP_A = 1, TPP_B };': 'TPP_B has no explicit value',
    'typedef struct tpp_s { int a; } tpp_s;': 'type `int`',
    'typedef struct tpp_s { unsigned long a; } tpp_s;': 'type `unsigned long`',
    'typedef struct tpp_s { size_t a[2]; } tpp_s;': 'type `size_t`',
    'typedef struct tpp_s { bool a; } tpp_s;': 'type `bool`',
    'typedef struct tpp_s { uint32_t a : 3; } tpp_s;': 'bit-field',
    'typedef struct tpp_s { union { float a; } u; } tpp_s;': 'holds a union',
    'typedef struct tpp_s { float a[]; } tpp_s;': 'without a length',
    'typedef struct tpp_s { void (*f)(void *ctx, int a); } tpp_s;': 'type `int`',
    'typedef struct tpp_s_desc { uint64_t size; uint32_t flags; } tpp_s_desc;': 'must begin with',
    'typedef struct tpp_s_ops { uint32_t flags; uint32_t size; } tpp_s_ops;': 'must begin with',
    'typedef long tpp_l;': 'type `long`',
    'typedef int (*tpp_f_fn)(void *ctx);': 'type `int`',
    '/** F. */\nTPP_API int tpp_f(void);': 'type `int`',
    '/** F. */\nTPP_API void tpp_f(long n);': 'type `long`',
    '/** F. */\nTPP_API void tpp_f(int32_t);': 'has no name',
    '/** F. */\nTPP_API void tpp_f(const char *format, ...);': 'variadic',
    '/** F. */\nTPP_API void tpp_f(tpp_mat m);': 'not by value',
    '/** F. */\nTPP_API tpp_mat tpp_f(void);': 'not by value',
    '/** F. */\nTPP_API void tpp_f(void (*g)(void *ctx));': 'callback typedef',
    '/** F. */\nvoid tpp_f(void);': 'without TPP_API',
    '/** F. */\n\nTPP_API void tpp_f(void);': 'no comment directly above',
    'TPP_API extern int32_t tpp_v;': 'not allowed',
    'static inline int32_t tpp_f(void) { return 1; }': 'not allowed',
    'union tpp_u { float a; };': 'not allowed',
    '#if TPP_FEATURE\n/** F. */\nTPP_API void tpp_f(void);\n#endif': 'declarations under',
}


def self_test():
    assert not list(check('good.h', GOOD, {'tpp_x_desc'})), list(check('good.h', GOOD, {'tpp_x_desc'}))
    for text, expected in BAD.items():
        rules = [rule for _, _, rule in check('bad.h', text, {'tpp_mat'})]
        assert len(rules) == 1 and expected in rules[0], (text, expected, rules)
    assert [line for _, line, _ in check('bad.h', '/** a */\n\ntypedef long tpp_l;', set())] == [3]


if __name__ == '__main__':
    self_test()
    root = os.environ.get('TPP_SOURCE_DIR', sys.path[0] + '/../..')
    headers = {}
    for path in sorted(glob.glob(f'{root}/include/tpp/*.h')):
        with open(path, encoding='utf-8') as file:
            headers[os.path.relpath(path, root)] = file.read()
    structs = struct_names(headers.values())
    close([breach for path, text in headers.items() for breach in check(path, text, structs)])
