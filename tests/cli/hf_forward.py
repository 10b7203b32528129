# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""The forward of the models that `tpp` reads, in plain Python and float64, from tensors named and shaped as Hugging
Face has them: matrices of Llama's kind are [out, in], rotary positions turn halves (rotate_half), each K/V head is
repeated for the query heads after one another. Written from those conventions, not from libtpp."""

import math


def times(x, w):
    """Rows x [n, in] times w [out, in], turned."""
    return [[math.fsum(a * b for a, b in zip(row, out)) for out in w] for row in x]


def turned(w):
    return [list(column) for column in zip(*w)]


def plus(x, bias):
    return [[a + b for a, b in zip(row, bias)] for row in x] if bias else x


def added(x, y):
    return [[a + b for a, b in zip(r, s)] for r, s in zip(x, y)]


def rms_norm(x, weight, epsilon):
    scales = [1 / math.sqrt(math.fsum(a * a for a in row) / len(row) + epsilon) for row in x]
    return [[a * scale * w for a, w in zip(row, weight)] for row, scale in zip(x, scales)]


def layer_norm(x, weight, bias, epsilon):
    out = []
    for row in x:
        mean = math.fsum(row) / len(row)
        scale = 1 / math.sqrt(math.fsum((a - mean) ** 2 for a in row) / len(row) + epsilon)
        out.append([(a - mean) * scale * w + b for a, w, b in zip(row, weight, bias)])
    return out


def silu(x):
    return x / (1 + math.exp(-x))


def gelu_new(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def frequencies(config, cols):
    """Of the pairs of a head of which `cols` columns are turned."""
    rope = {**(config.get('rope_scaling') or {}), **(config.get('rope_parameters') or {})}
    base = rope.get('rope_theta', config.get('rope_theta', 10000))
    plain = [base ** (-2 * j / cols) for j in range(cols // 2)]
    kind = rope.get('rope_type', rope.get('type', 'default'))
    if kind == 'linear':
        return [f / rope['factor'] for f in plain]
    if kind == 'default':
        return plain
    original, low, high = (rope[name] for name in ('original_max_position_embeddings', 'low_freq_factor',
                                                   'high_freq_factor'))
    out = []
    for f in plain:
        wave = 2 * math.pi / f
        smooth = (original / wave - low) / (high - low)
        mixed = (1 - smooth) * f / rope['factor'] + smooth * f
        out.append(f / rope['factor'] if wave > original / low else f if wave < original / high else mixed)
    return out


def rotate(head, position, speeds):
    """One head of one token: the first 2 * len(speeds) columns are turned, as halves."""
    half = len(speeds)
    out = list(head)
    for j, speed in enumerate(speeds):
        c, s = math.cos(position * speed), math.sin(position * speed)
        out[j] = head[j] * c - head[j + half] * s
        out[j + half] = head[j + half] * c + head[j] * s
    return out


def attend(q, k, v, window):
    """q, k, v [tokens][heads][columns], as many heads each; causal."""
    out = []
    for i, heads in enumerate(q):
        row = []
        for h, query in enumerate(heads):
            keys = [j for j in range(i + 1) if not window or i - j < window]
            scores = [math.fsum(a * b for a, b in zip(query, k[j][h])) / math.sqrt(len(query)) for j in keys]
            top = max(scores)
            weights = [math.exp(s - top) for s in scores]
            total = math.fsum(weights)
            row += [math.fsum(w * v[j][h][c] for w, j in zip(weights, keys)) / total for c in range(len(query))]
        out.append(row)
    return out


def split_heads(x, cols):
    return [[row[at:at + cols] for at in range(0, len(row), cols)] for row in x]


def llama_attention(x, config, w, name, layer):
    heads = config['num_attention_heads']
    kv_heads = config.get('num_key_value_heads') or heads
    cols = config.get('head_dim') or config['hidden_size'] // heads
    q, k, v = (split_heads(plus(times(x, w[f'{name}.{p}_proj.weight']), w.get(f'{name}.{p}_proj.bias')), cols)
               for p in 'qkv')
    if f'{name}.q_norm.weight' in w:
        q = [rms_norm(row, w[f'{name}.q_norm.weight'], config['rms_norm_eps']) for row in q]
        k = [rms_norm(row, w[f'{name}.k_norm.weight'], config['rms_norm_eps']) for row in k]
    share = config.get('partial_rotary_factor') or (config.get('rope_parameters') or {}).get('partial_rotary_factor', 1)
    speeds = frequencies(config, int(cols * share))
    q = [[rotate(head, i, speeds) for head in row] for i, row in enumerate(q)]
    k = [[rotate(head, i, speeds) for head in row] for i, row in enumerate(k)]
    repeat = heads // kv_heads
    k, v = ([[head for head in row for _ in range(repeat)] for row in t] for t in (k, v))
    window = config.get('sliding_window')
    if config['model_type'] in ('qwen2', 'qwen3'):
        used = config.get('use_sliding_window') and layer >= config['max_window_layers']
        window = window if used else None
    out = attend(q, k, v, window)
    return plus(times(out, w[f'{name}.o_proj.weight']), w.get(f'{name}.o_proj.bias'))


def llama_logits(config, w, ids):
    epsilon = config['rms_norm_eps']
    x = [w['model.embed_tokens.weight'][i] for i in ids]
    for layer in range(config['num_hidden_layers']):
        name = f'model.layers.{layer}'
        normed = rms_norm(x, w[f'{name}.input_layernorm.weight'], epsilon)
        x = added(x, llama_attention(normed, config, w, f'{name}.self_attn', layer))
        normed = rms_norm(x, w[f'{name}.post_attention_layernorm.weight'], epsilon)
        gate, up = (plus(times(normed, w[f'{name}.mlp.{p}_proj.weight']), w.get(f'{name}.mlp.{p}_proj.bias'))
                    for p in ('gate', 'up'))
        middle = [[silu(g) * u for g, u in zip(r, s)] for r, s in zip(gate, up)]
        x = added(x, plus(times(middle, w[f'{name}.mlp.down_proj.weight']), w.get(f'{name}.mlp.down_proj.bias')))
    x = rms_norm(x, w['model.norm.weight'], epsilon)
    return times(x, w.get('lm_head.weight', w['model.embed_tokens.weight']))


def gpt2_logits(config, w, ids):
    def linear(x, name):  # Conv1D: [in, out]
        return plus(times(x, turned(w[f'{name}.weight'])), w[f'{name}.bias'])

    def norm(x, name):
        return layer_norm(x, w[f'{name}.weight'], w[f'{name}.bias'], config.get('layer_norm_epsilon', 1e-5))

    hidden, cols = config['n_embd'], config['n_embd'] // config['n_head']
    x = added([w['transformer.wte.weight'][i] for i in ids], w['transformer.wpe.weight'])
    for layer in range(config['n_layer']):
        name = f'transformer.h.{layer}'
        qkv = linear(norm(x, f'{name}.ln_1'), f'{name}.attn.c_attn')
        q, k, v = (split_heads([row[at:at + hidden] for row in qkv], cols) for at in (0, hidden, 2 * hidden))
        x = added(x, linear(attend(q, k, v, None), f'{name}.attn.c_proj'))
        middle = [[gelu_new(a) for a in row] for row in linear(norm(x, f'{name}.ln_2'), f'{name}.mlp.c_fc')]
        x = added(x, linear(middle, f'{name}.mlp.c_proj'))
    return times(norm(x, 'transformer.ln_f'), w.get('lm_head.weight', w['transformer.wte.weight']))


def loss(config, w, ids, targets):
    """Mean cross-entropy."""
    logits = (gpt2_logits if config['model_type'] == 'gpt2' else llama_logits)(config, w, ids)
    sums = []
    for row, target in zip(logits, targets, strict=True):
        top = max(row)
        sums.append(top + math.log(math.fsum(math.exp(z - top) for z in row)) - row[target])
    return math.fsum(sums) / len(sums)
