#!/usr/bin/env python3
"""Writes rule_trajectories.json: 20 steps of rules in fp64, written down from the papers' algorithms and nothing of
this project. Lion: arXiv 2302.06675, program 2. LAMB: arXiv 1904.00962, algorithm 2, phi(z) = z or between
bounds, and LAMBC's clip. LARS: arXiv 1708.03888, algorithm 1, with the learning rate outside of the buffer and PyTorch's
Nesterov step, and LARC's clip; the clip of the momentum alone, as in bitsandbytes. AdEMAMix: arXiv 2409.03137, algorithm 1, with beta3 by its half-life.
StableAdamW: arXiv 2304.13013, algorithm 2, whose averages are corrected as they are made. Adam-mini: arXiv 2406.16793 with a
block for each row, or for each head of queries and keys. The factored variance: arXiv 2309.01507. Adafactor: arXiv 1804.04235, algorithms 4 and 5, with sums
as there.

Gradients and starts are those of make_trajectories.py, exact in fp32.
"""
import json
import math
import os

N, STEPS = 12, 20
CASES = [
    ("lion", dict(lr=0.01)),
    ("lion", dict(lr=0.003, betas=(0.95, 0.98), weight_decay=0.1)),
    ("lamb", dict(lr=0.01)),
    ("lamb", dict(lr=0.05, betas=(0.8, 0.99), eps=1e-4, weight_decay=0.1)),
    ("lars", dict(lr=1.0, momentum=0.9)),
    ("lars", dict(lr=0.5, momentum=0.9, nesterov=True, trust_coefficient=0.02, weight_decay=0.01)),
    ("lars", dict(lr=0.1, momentum=0.8, trust_coefficient=0.5, norm_epsilon=1e-4, weight_decay=0.05, trust_clip=True)),
    ("lars_clip", dict(lr=0.5, momentum=0.9)),
    ("lars_clip", dict(lr=0.1, momentum=0.8, max_share=0.7, weight_decay=0.05)),
    ("lars", dict(lr=0.8, momentum=0.0, trust_coefficient=0.4, norm_epsilon=1e-2, weight_decay=0.05, trust_clip=True)),
    ("adamw", dict(lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.01, update_clip=1)),
    ("adamw", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, update_clip=0.7)),
    ("adam", dict(lr=0.01, betas=(0.9, 0.9), weight_decay=0.05, update_clip=0.9)),
    ("ademamix", dict(lr=0.01)),
    ("ademamix", dict(lr=0.01, betas=(0.0, 0.99), beta3=0.95, slow_weight=2, eps=1e-4, weight_decay=0.1,
                      beta3_warmup=8)),
    ("ademamix", dict(lr=0.003, betas=(0.8, 0.99), beta3=0.999, slow_weight=8, weight_decay=0.1,
                      slow_weight_warmup=16, beta3_warmup=12)),
    ("adam_mini", dict(lr=0.01), [3, 4]),
    ("adam_mini", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1), [4, 3]),
    ("adam_mini", dict(lr=0.01, weight_decay=0.01), [12]),
    ("adam_mini", dict(lr=0.01, per_head=True), [6, 2], 3, 1),
    ("adam_mini", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1, per_head=True), [12, 1], 3, 2),
    ("adamw_factored", dict(lr=0.01), [3, 4]),
    ("adamw_factored", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1), [2, 6]),
    ("adamw_factored", dict(lr=0.01, weight_decay=0.01), [12]),
    ("adafactor", dict(lr=0.01), [3, 4]),
    ("adafactor", dict(lr=0.03, beta1=0.9, relative_step=False, weight_decay=0.05), [2, 2, 3]),
    ("adafactor", dict(lr=0.02, beta1=0.5, epsilon1=1e-3, scale_parameter=False, clip_threshold=0.5), [6, 2]),
    ("adafactor", dict(lr=0.5, decay_rate=0.6, epsilon2=0.2), [12]),
    ("lamb", dict(lr=0.02, weight_decay=0.05, min_weight_norm=1.52)),
    ("lamb", dict(lr=0.05, betas=(0.8, 0.99), weight_decay=0.1, min_weight_norm=0.5, max_weight_norm=1.3)),
    ("lamb", dict(lr=0.1, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.1, max_weight_norm=1.4, trust_clip=True)),
]


def start(i):
    return (i - 5) / 8


def gradient(step, i):
    return ((step * 7 + i * 13) % 32 - 15) / 64


def lion(p, m, _v, _s, g, _t, lr, betas=(0.9, 0.99), weight_decay=0.0):
    for i in range(N):
        c = betas[0] * m[i] + (1 - betas[0]) * g[i]
        p[i] -= lr * ((c > 0) - (c < 0) + weight_decay * p[i])
        m[i] = betas[1] * m[i] + (1 - betas[1]) * g[i]


def norm(x):
    return math.sqrt(sum(e * e for e in x))


def lamb(p, m, v, _s, g, t, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, min_weight_norm=0.0, max_weight_norm=math.inf,
         trust_clip=False):
    u = []
    for i in range(N):
        m[i] = betas[0] * m[i] + (1 - betas[0]) * g[i]
        v[i] = betas[1] * v[i] + (1 - betas[1]) * g[i] * g[i]
        m_hat, v_hat = m[i] / (1 - betas[0] ** t), v[i] / (1 - betas[1] ** t)
        u.append(m_hat / (math.sqrt(v_hat) + eps) + weight_decay * p[i])
    size, length = min(max(norm(p), min_weight_norm), max_weight_norm), norm(u)
    ratio = size / length if size > 0 and length > 0 else 1
    if trust_clip:
        ratio = min(ratio, 1)
    for i in range(N):
        p[i] -= lr * ratio * u[i]


def lars(p, m, _v, _s, g, _t, lr, momentum, nesterov=False, trust_coefficient=1e-3, norm_epsilon=1e-8,
         weight_decay=0.0, trust_clip=False):
    size, length = norm(p), norm(g)
    rate = trust_coefficient * size / (length + weight_decay * size + norm_epsilon) if size > 0 and length > 0 else 1
    if trust_clip:
        rate = min(rate / lr, 1)
    for i in range(N):
        u = rate * (g[i] + weight_decay * p[i])
        m[i] = momentum * m[i] + u
        p[i] -= lr * (u + momentum * m[i] if nesterov else m[i])


def lars_clip(p, m, _v, _s, g, _t, lr, momentum, max_share=0.02, weight_decay=0.0):
    for i in range(N):
        m[i] = momentum * m[i] + g[i] + weight_decay * p[i]
    size, length = norm(p), norm(m)
    cut = min(1, max_share * size / length) if size > 0 and length > 0 else 1
    for i in range(N):
        p[i] -= lr * cut * m[i]


def stable_adam(p, m, v, _s, g, t, lr, betas, update_clip, eps=1e-8, weight_decay=0.0, decoupled=True):
    beta = [(b ** t - b) / (b ** t - 1) for b in betas]
    if not decoupled:
        g = [g[i] + weight_decay * p[i] for i in range(N)]
    for i in range(N):
        m[i] = beta[0] * m[i] + (1 - beta[0]) * g[i]
        v[i] = beta[1] * v[i] + (1 - beta[1]) * g[i] * g[i]
    rms = math.sqrt(sum(g[i] * g[i] / max(v[i], eps * eps) for i in range(N)) / N)
    rate = lr / max(1, rms / update_clip)
    for i in range(N):
        p[i] -= rate * (m[i] / (math.sqrt(v[i]) + eps) + (weight_decay * p[i] if decoupled else 0))


def stable_adam_coupled(*state, **options):
    stable_adam(*state, decoupled=False, **options)


def half_life(beta):
    return math.log(0.5) / math.log(beta) if beta > 0 else 0


def ademamix(p, m, v, s, g, t, lr, betas=(0.9, 0.999), beta3=0.9999, slow_weight=5, eps=1e-8, weight_decay=0.0,
             slow_weight_warmup=0, beta3_warmup=0):
    alpha, beta3_now = slow_weight, beta3
    if t < slow_weight_warmup:
        alpha *= t / slow_weight_warmup
    if t < beta3_warmup:
        first, last = half_life(betas[0]), half_life(beta3)
        beta3_now = 0.5 ** (1 / (first + (last - first) * t / beta3_warmup))
    for i in range(N):
        m[i] = betas[0] * m[i] + (1 - betas[0]) * g[i]
        s[i] = beta3_now * s[i] + (1 - beta3_now) * g[i]
        v[i] = betas[1] * v[i] + (1 - betas[1]) * g[i] * g[i]
        m_hat, v_hat = m[i] / (1 - betas[0] ** t), v[i] / (1 - betas[1] ** t)
        p[i] -= lr * ((m_hat + alpha * s[i]) / (math.sqrt(v_hat) + eps) + weight_decay * p[i])


# For matrices, r and c have a value for each row and column, and v is computed from them.
def adam_step(p, m, v, g, t, lr, betas, eps, weight_decay):
    for i in range(N):
        m[i] = betas[0] * m[i] + (1 - betas[0]) * g[i]
        p[i] -= lr * weight_decay * p[i]
        p[i] -= lr * m[i] / (1 - betas[0] ** t) / (math.sqrt(v[i] / (1 - betas[1] ** t)) + eps)


def adam_mini(p, m, v, g, t, r, c, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, per_head=False, heads=0):
    width = N // len(r) if c else N
    i = 0
    while i < N:
        # Queries and keys are the first two thirds.
        block = N // 3 // heads if per_head and i < N // 3 * 2 else width
        mean = sum(x * x for x in g[i:i + block]) / block
        v[i:i + block] = [betas[1] * v[i] + (1 - betas[1]) * mean] * block
        i += block
    adam_step(p, m, v, g, t, lr, betas, eps, weight_decay)


def adamw_factored(p, m, v, g, t, r, c, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
    if not c:
        v[:] = [betas[1] * v[i] + (1 - betas[1]) * g[i] ** 2 for i in range(N)]
    else:
        width = len(c)
        for i in range(len(r)):
            r[i] = betas[1] * r[i] + (1 - betas[1]) * sum(x * x for x in g[i * width:(i + 1) * width]) / width
        for j in range(width):
            c[j] = betas[1] * c[j] + (1 - betas[1]) * sum(x * x for x in g[j::width]) / len(r)
        v[:] = [r[i // width] * c[i % width] / (sum(r) / len(r)) for i in range(N)]
    adam_step(p, m, v, g, t, lr, betas, eps, weight_decay)


def adafactor(p, m, v, g, t, r, c, lr, beta1=0.0, decay_rate=0.8, epsilon1=1e-30, epsilon2=1e-3, clip_threshold=1.0,
              relative_step=True, scale_parameter=True, weight_decay=0.0):
    beta2 = 1 - t ** -decay_rate
    squares = [x * x + epsilon1 for x in g]
    if not c:
        v[:] = [beta2 * v[i] + (1 - beta2) * squares[i] for i in range(N)]
    else:
        width = len(c)
        for i in range(len(r)):
            r[i] = beta2 * r[i] + (1 - beta2) * sum(squares[i * width:(i + 1) * width])
        for j in range(width):
            c[j] = beta2 * c[j] + (1 - beta2) * sum(squares[j::width])
        v[:] = [r[i // width] * c[i % width] / sum(r) for i in range(N)]
    u = [g[i] / math.sqrt(v[i]) for i in range(N)]
    rate = min(lr, 1 / math.sqrt(t)) if relative_step else lr
    if scale_parameter:
        rate *= max(epsilon2, norm(p) / math.sqrt(N))
    cut = max(1, norm(u) / math.sqrt(N) / clip_threshold)
    for i in range(N):
        m[i] = beta1 * m[i] + (1 - beta1) * rate * u[i] / cut
        p[i] += -lr * weight_decay * p[i] - m[i]


RULES = {"lion": lion, "lamb": lamb, "lars": lars, "lars_clip": lars_clip, "ademamix": ademamix,
         "adamw": stable_adam, "adam": stable_adam_coupled}
MATRIX_RULES = {"adam_mini": adam_mini, "adamw_factored": adamw_factored, "adafactor": adafactor}


def main():
    out = []
    for name, options, *rest in CASES:
        p, m, v, s = [start(i) for i in range(N)], [0.0] * N, [0.0] * N, [0.0] * N
        shape = rest[0] if rest else [1, N]
        rows, columns = [0.0] * shape[0], [0.0] * (N // shape[0]) if len(shape) > 1 else []
        parts, heads = rest[1:] if len(rest) > 1 else (1, 0)
        of_heads = dict(heads=heads) if heads else {}
        trajectory = []
        for step in range(STEPS):
            g = [gradient(step, i) for i in range(N)]
            if name in RULES:
                RULES[name](p, m, v, s, g, step + 1, **options)
            else:
                MATRIX_RULES[name](p, m, v, g, step + 1, rows, columns, **options, **of_heads)
            trajectory.append([float(f"{x:.9g}") for x in p])
        case = dict(rule=name, options=options, parameters=trajectory)
        if heads:
            case.update(parts=parts, heads=heads)
        out.append(dict(case, shape=shape) if rest else case)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rule_trajectories.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")


main()
