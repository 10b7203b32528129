#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""Counts of random models against Python's big integers: the formulas of cost.h and cost_comm.h as they stand there,
written a second time. What does not fit into 63 bits must be refused as overflow, what breaks a rule as invalid.

    test_cost_bigints.py [COUNT [SEED]]     default: 100,000 rows of seed 1
"""
import os
import subprocess
import sys
from array import array

INPUTS = """flags vocab hidden ffn positions window expert_ffn shared_ffn layers heads kv_heads head_cols experts
 experts_per_token dense_layers window_first
 part_flags part_tp part_layers part_dense vocab_multiple own_bytes weight grad grad_copy master momentum variance
 dp zero shape_flags batch seq tp cp recompute element_bytes mask phase cache_layers cache_batch cache_seq
 cache_bytes""".split()
TIED, GATED, NO_BIAS, QKV_BIAS, RMS, QK_NORM, PARALLEL, TWO_NORMS, OUT_BIAS, MLP_BIAS, SHARED_GATE = \
    (1 << i for i in range(11))
SEQUENCE, NO_DROPOUT, SCORES, KEEP_SILU, EXCHANGE = (1 << i for i in range(5))
OK, INVALID, OVERFLOW = 0, -1, -4
MOST = 2 ** 63 - 1


class Invalid(Exception):
    pass


class Overflow(Exception):
    pass


def need(rule):
    if not rule:
        raise Invalid


def fits(number):
    if number > MOST:
        raise Overflow
    return number


def up(a, b):
    return -(-a // b)


class Model:
    """A model with its defaults; `shared` is what one of t ranks has of it."""

    def __init__(self, r):
        self.r, self.flags, self.h, self.L, self.V = r, r.flags, r.hidden, r.layers, r.vocab
        self.a, self.E, self.k, self.positions = r.heads, r.experts, r.experts_per_token, r.positions
        need(r.head_cols or self.h % self.a == 0)
        self.d = r.head_cols or self.h // self.a
        need(self.d < 2 ** 31)
        self.g = r.kv_heads or self.a
        need(self.a % self.g == 0)
        if self.E:
            need(1 <= self.k <= self.E and r.dense_layers <= self.L)
        else:
            need(not (self.k or r.expert_ffn or r.shared_ffn or r.dense_layers))
        need(not (self.flags & SHARED_GATE) or r.shared_ffn)
        self.dense = r.dense_layers if self.E else self.L
        f = r.ffn or 4 * self.h
        self.f = f if self.dense else 0
        self.fe, self.fs = (r.expert_ffn or f, r.shared_ffn) if self.dense < self.L else (0, 0)

    def shared(self, t):
        need(self.a % t == 0 and (self.g % t == 0 or t % self.g == 0))
        need(self.f % t == 0 and self.fe % t == 0 and self.fs % t == 0)
        m = object.__new__(Model)
        m.__dict__.update(self.__dict__, a=self.a // t, g=max(self.g // t, 1), f=self.f // t, fe=self.fe // t,
                          fs=self.fs // t)
        return m

    def has(self, flag):
        return 1 if self.flags & flag else 0

    def biased(self, exception):
        return 1 if not self.flags & NO_BIAS or self.flags & exception else 0

    def mlp(self, f):
        """2 h f, gated 3 h f, and biases."""
        if not f:
            return 0
        ups = 1 + self.has(GATED)
        return (ups + 1) * self.h * f + self.biased(MLP_BIAS) * (ups * f + self.h)

    def moe(self):
        if self.dense == self.L:
            return 0
        return self.E * self.mlp(self.fe) + self.mlp(self.fs) + self.h * self.E + self.has(SHARED_GATE) * self.h

    def attention(self):
        h, d, a, g = self.h, self.d, self.a, self.g
        return (h * d * (2 * a + 2 * g) + self.biased(QKV_BIAS) * (a + 2 * g) * d + self.biased(OUT_BIAS) * h
                + self.has(QK_NORM) * 2 * d)

    def one_norm(self):
        return self.has(PARALLEL) and not self.has(TWO_NORMS)

    def norm(self):
        return self.h if self.has(RMS) else 2 * self.h

    def norms(self):
        return self.norm() * (1 if self.one_norm() else 2)

    def products(self):
        """Weights of a layer's products: attention, plain MLP, experts visited."""
        ups = 2 + self.has(GATED)
        moe = 0 if self.dense == self.L else \
            ups * self.h * (self.k * self.fe + self.fs) + self.h * self.E + self.has(SHARED_GATE) * self.h
        return self.h * self.d * (2 * self.a + 2 * self.g), ups * self.h * self.f, moe


def params(r, m):
    moes = m.L - m.dense
    embedding, head = (m.V + m.positions) * m.h, 0 if m.has(TIED) else m.V * m.h
    attention, plain, experts = m.products()
    total = (embedding + head + m.norm() + m.L * (m.attention() + m.norms()) + m.dense * m.mlp(m.f)
             + moes * m.moe())
    active = total - moes * (m.E - m.k) * m.mlp(m.fe)
    matmul = m.L * attention + m.dense * plain + moes * experts + m.V * m.h
    return [total, active, embedding, head, m.norm(), m.attention(), m.mlp(m.f), m.moe(), m.norms(), matmul]


def part(r, m):
    dense = m.r.dense_layers if m.E else 0
    need(r.part_layers <= m.L)
    need(r.part_dense <= min(r.part_layers, dense))
    if m.E:
        need(r.part_layers - r.part_dense <= m.L - m.dense)
    t = r.part_tp or 1
    s = m.shared(t)
    multiple = r.vocab_multiple or 1
    rows = up(m.V, multiple * t) * multiple
    begins, ends = r.part_flags & 1, r.part_flags >> 1 & 1
    tables = begins + ends - (1 if begins and ends and m.has(TIED) else 0)
    plain = r.part_dense if m.E else r.part_layers
    terms = [tables * rows * m.h, begins * m.positions * m.h, ends * m.norm(),
             r.part_layers * (s.attention() + s.norms()), plain * s.mlp(s.f), (r.part_layers - plain) * s.moe()]
    return [sum(terms)], [rows * m.h, s.attention(), s.norms(), s.mlp(s.f), s.moe()]


def pairs(r, window):
    s = r.seq
    if r.mask == 0:
        return s * s
    if r.mask == 1:
        return 2 * s * s
    w = min(window, s) if window else s
    return w * (w + 1) + 2 * (s - w) * w


def flops(r, m):
    tokens = r.batch * r.seq
    attention, plain, experts = m.products()
    windowed = r.window > 0 and r.window_first < m.L
    first = r.window_first if windowed else m.L

    def core(window):
        return 2 * r.batch * pairs(r, window) * m.a * m.d

    last = core(r.window if windowed else 0)
    cores = first * core(0) + (m.L - first) * last
    layers = m.L * 2 * tokens * attention + 2 * tokens * (m.dense * plain + (m.L - m.dense) * experts) + cores
    head = 2 * tokens * m.h * m.V
    return [2 * tokens * attention, last, 2 * tokens * plain, 2 * tokens * experts, head, layers + head, layers,
            cores]


def states(r, m):
    (p,), terms = part(r, m)
    if max(terms + [p]) > MOST:
        return [p], terms
    lists = [r.weight, r.grad, r.grad_copy, r.master, r.momentum, r.variance]
    if not r.own_bytes or not any(lists):
        lists = [2, 2, 0, 4, 4, 4]
    share = [p if r.zero < stage else up(p, r.dp) for stage in (3, 2, 1)]
    parts = [lists[0] * share[0], (lists[1] + lists[2]) * share[1], sum(lists[3:]) * share[2]]
    return [p] + parts + [sum(parts)]


def activations(r, m):
    need(r.cp < 2 or r.seq % r.cp == 0)
    t, c, e = r.tp or 1, r.cp or 1, r.element_bytes or 2
    tokens = fits(r.batch * r.seq // c)
    s = m.shared(t)
    own = up(tokens, t) if r.shape_flags & SEQUENCE else tokens
    mask = 0 if r.shape_flags & NO_DROPOUT else own * m.h
    row = own * m.h * e
    heads = 2 * (s.a + s.g) + (s.a + s.g if m.has(QK_NORM) else 0)
    attention = row + e * tokens * heads * m.d + mask
    if r.shape_flags & SCORES:
        scores = s.a * tokens * r.seq * (2 * e + 1 if mask else e)
    else:
        scores = 4 * s.a * tokens
    norms = row * (1 if m.has(PARALLEL) else 2)
    ends = (0 if m.one_norm() else row) + (0 if m.has(PARALLEL) else mask)
    inner = (4 if r.shape_flags & KEEP_SILU else 3) if m.has(GATED) else 2
    mlp = e * tokens * inner * s.f + ends if m.dense else 0
    moe = 0
    if m.dense < m.L:
        moe = e * tokens * inner * (m.k * s.fe + s.fs) + ends + 4 * own * m.E + m.k * row
    layers, work = [], 0
    for rest in (mlp, moe):
        whole = attention + scores + norms + rest
        kept = [whole, whole - scores, row][r.recompute] if rest else 0
        work = max(work, whole - kept if rest else 0)
        layers.append(kept)
    head = 2 * row + 4 * tokens * up(m.V, t)
    whole = attention + scores + norms + max(mlp, moe)
    return layers + [attention, scores, mlp, moe, norms, work, mask, head], [whole]


def traffic(r, m):
    need(r.cp < 2 or r.seq % r.cp == 0)
    t, c = r.tp or 1, r.cp or 1
    tokens = fits(r.batch * r.seq // c)
    s = m.shared(t)
    need(not r.shape_flags & EXCHANGE or s.g % c == 0)
    parted = r.shape_flags & SEQUENCE
    norms = 1 if m.one_norm() else 2
    sides = 1 if m.has(PARALLEL) else 2
    # gathers, sums, numbers of the loss, attention forwards and backwards
    again = [(0, 0, 0), (sides - 1, 0, 1), (norms, sides - 1, 1)][r.recompute]
    gathers, sums, loss, forwards, backwards = {
        1: (norms, sides, 0, 1, 0),
        2: (norms + sides + again[0], norms + again[1], 0, again[2], 1),
        3: (0, 1, 0, 0, 0), 4: (1, 0, 0, 0, 0), 5: (1, 0, 1, 0, 0), 6: (1, 1, 0, 0, 0)}[r.phase]
    out, terms = [0] * 8, []
    if t > 1:
        matrix = (up(tokens, t) * t if parted else tokens) * m.h
        terms.append(matrix)
        out[:6] = [0, 0, gathers, gathers * matrix, sums, sums * matrix] if parted else \
            [sums, sums * matrix, 0, 0, 0, 0]
        out[0] += 2 * loss
        out[1] += 3 * loss * tokens
    if c > 1:
        q, k = tokens * s.a * m.d, tokens * s.g * m.d
        if r.shape_flags & EXCHANGE:
            out[6] = (forwards + backwards) * 2 * (c - 1)
            out[7] = (c - 1) * (forwards * (2 * q + 2 * k) + backwards * (4 * q + 4 * k)) // c
        else:
            out[6] = forwards * (c - 1) + backwards * (2 * c - 1)
            out[7] = out[6] * 2 * k
    return out, terms


def cache(r, m):
    need(r.cache_layers <= m.L)
    s = m.shared(r.tp or 1)
    column, tokens = 2 * s.g * m.d * (r.cache_bytes or 2), fits(r.cache_batch * r.cache_seq)
    return [column * r.cache_layers * tokens], [column, r.cache_layers * tokens]


QUERIES = [(params, 10), (part, 1), (flops, 8), (states, 5), (activations, 10), (traffic, 8), (cache, 1)]
WIDTH = len(INPUTS) + sum(1 + n for _, n in QUERIES)


class Row:
    __slots__ = INPUTS


def right(query, row, model):
    """Status and numbers; without numbers where the status is none."""
    if model is None:
        return INVALID, None
    try:
        found = query(row, model)
    except Invalid:
        return INVALID, None
    except Overflow:
        return OVERFLOW, None
    numbers, terms = found if isinstance(found, tuple) else (found, [])
    if max(numbers) > MOST or (terms and max(terms) > MOST):
        return OVERFLOW, None
    return OK, numbers


def differences(values, seen):
    row = Row()
    for name, value in zip(INPUTS, values):
        setattr(row, name, value)
    try:
        model = Model(row)
    except Invalid:
        model = None
    at = len(INPUTS)
    for query, count in QUERIES:
        status, told = values[at], values[at + 1:at + 1 + count]
        at += 1 + count
        wanted, numbers = right(query, row, model)
        seen[query.__name__, wanted] = seen.get((query.__name__, wanted), 0) + 1
        if status != wanted or (numbers is not None and list(told) != numbers):
            yield query.__name__, status, list(told), wanted, numbers, dict(zip(INPUTS, values))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100000
    seed = sys.argv[2] if len(sys.argv) > 2 else '1'
    program = os.path.join(os.environ.get('TPP_BUILD_DIR', 'build'), 'bin', 'test_cost_rows')
    seen, bad, rows = {}, 0, 0
    with subprocess.Popen([program, str(count), seed], stdout=subprocess.PIPE) as run:
        while data := run.stdout.read(8 * WIDTH * 1000):
            values = array('q')
            values.frombytes(data)
            for at in range(0, len(values), WIDTH):
                rows += 1
                for difference in differences(values[at:at + WIDTH], seen):
                    bad += 1
                    if bad <= 5:
                        print(*difference)
    for (name, status), times in sorted(seen.items()):
        print(f'{name:12} {({OK: "counted", INVALID: "invalid", OVERFLOW: "overflow"})[status]:9}{times:9}')
    print(f'{rows} configurations, {bad} differences')
    # All kinds of answers must have been met often enough to mean something.
    thin = [q.__name__ for q, _ in QUERIES if seen.get((q.__name__, OK), 0) < rows / 4]
    return bad > 0 or rows != count or run.returncode != 0 or bool(thin)


sys.exit(main())
