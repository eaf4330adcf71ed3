#!/usr/bin/env python3
"""Golden values of the policy loss, in float64 and by automatic differentiation: none of this project's code computes them.

    pip install torch numpy        # made with torch 2.13.0+cpu
    python3 tests/golden/policy_golden.py

Reads the tiny model and the token ids of `golden.json.gz` from fixtures/models/tiny-agent, and writes there
`golden-policy/adapter.gguf` (rank 3, alpha 6), `golden-policy/gradients.safetensors` (`<case>.<tensor>.<A|B>`, rounded; to be
packed by `scripts/pack_fixture.ts`) and `golden-policy.json.gz`. Every sample is a pass of its own: no prompt is shared, nothing is packed or cut.

With m the mask, A advantages, c weights, r reference and o old log-probabilities, sg a constant to the gradient:

    token:     w_t = exp(log p_t - o_t)
    sequence:  w_t = sg[s] p_t / sg[p_t],   s = exp(mean over the trajectory's trained tokens of log p - o)
    loss = sum m_t (-c_t min(w_t A_t, clip(w_t, 1 - low, 1 + high) A_t) + kl sg[w_t] (exp(d_t) - d_t - 1)) / normalizer
    d_t = r_t - log p_t
"""
import gzip
import json
import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = Path(__file__).resolve().parents[2] / "fixtures/models/tiny-agent"
RANK, ALPHA, SEED = 3, 6, 7
# One projection of attention and one of the feed-forward part: the first and the last in the order of the backward
# pass.
TARGETS = ["attn_k", "ffn_down"]
NORMALIZER = 640.0
CASES = {
    "token": dict(level="token", clip_low=0.2, clip_high=0.28, kl=0.0, weighted=False),
    "token_kl": dict(level="token", clip_low=0.2, clip_high=0.28, kl=0.3, weighted=True),
    "sequence": dict(level="sequence", clip_low=0.2, clip_high=0.28, kl=0.0, weighted=False),
    "sequence_kl": dict(level="sequence", clip_low=3e-4, clip_high=4e-4, kl=0.3, weighted=True),
}
# The log-ratios from which the old log-probabilities are made: the largest of a token, and each trajectory's mean.
TOKEN_DRIFT = 0.6
SEQUENCE_DRIFT = {"sequence": [0.4, -0.1, 0.35, -0.4, 0.1, -0.3], "sequence_kl": [1e-3, -1e-4, -1e-3, -2e-3, 1e-4, 2e-3]}
# No ratio may be so close to the clip range's end that single precision could put it on the other side.
CLIP_MARGIN = {"token": 5e-3, "token_kl": 5e-3, "sequence": 5e-3, "sequence_kl": 5e-5}


# --- files ---

STRUCT = {4: "<I", 5: "<i", 6: "<f", 7: "<?"}  # GGUF's u32, i32, f32, bool; 8 is a string, 9 an array


def read_gguf(path):
    """(metadata, {name: float64 array}) of a file with F32 and F16 tensors."""
    data, at = path.read_bytes(), 0

    def take(form):
        nonlocal at
        out = struct.unpack_from(form, data, at)[0]
        at += struct.calcsize(form)
        return out

    def text():
        nonlocal at
        length = take("<Q")
        at += length
        return data[at - length:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = take("<I"), take("<Q")
            return [value(inner) for _ in range(count)]
        return take(STRUCT[kind])

    assert data[:4] == b"GGUF"
    at = 8
    tensors, entries = take("<Q"), take("<Q")
    meta = {}
    for _ in range(entries):
        key = text()
        meta[key] = value(take("<I"))
    places = []
    for _ in range(tensors):
        name, dims = text(), take("<I")
        shape = [take("<Q") for _ in range(dims)][::-1]
        places.append((name, shape, "<f2" if take("<I") == 1 else "<f4", take("<Q")))
    base = -(-at // 32) * 32
    return meta, {name: np.frombuffer(data, kind, int(np.prod(shape)), base + offset).reshape(shape).astype(np.float64)
                  for name, shape, kind, offset in places}


def write_adapter(path, tensors):
    """A LoRA adapter as llama.cpp reads it; every tensor F32."""
    string = lambda s: struct.pack("<Q", len(s)) + s.encode()
    entry = lambda key, kind, body: string(key) + struct.pack("<I", kind) + body
    meta = [entry("general.architecture", 8, string("qwen3")), entry("general.type", 8, string("adapter")),
            entry("adapter.type", 8, string("lora")), entry("adapter.lora.alpha", 6, struct.pack("<f", ALPHA))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta)) + b"".join(meta)
    pad, body = lambda b: b + b"\0" * (-len(b) % 32), b""
    for name, x in tensors.items():
        head += string(name) + struct.pack("<I", 2) + b"".join(struct.pack("<Q", n) for n in reversed(x.shape))
        head += struct.pack("<IQ", 0, len(body))
        body += pad(x.numpy().astype("<f4").tobytes())
    path.write_bytes(pad(head) + body)


def rounded(x):
    """To multiples of a power of two, at most 2^-14 of the root mean square: packed they take two thirds of the bytes. The
    tests allow 5 times the error that this is in a tensor, and 13 times that in an element."""
    step = 2.0 ** (np.floor(np.log2(np.sqrt(np.mean(x**2)))) - 14)
    return np.round(x / step) * step


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, x in tensors.items():
        raw = rounded(x.numpy()).astype("<f4").tobytes()
        header[name] = dict(dtype="F32", shape=list(x.shape), data_offsets=[len(body), len(body) + len(raw)])
        body += raw
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + body)


# --- the model: Qwen3 with a low-rank term beside some projections ---

class Model:
    def __init__(self, path):
        meta, tensors = read_gguf(path)
        key = lambda name: meta["qwen3." + name]
        self.w = {name.removesuffix(".weight"): torch.from_numpy(x) for name, x in tensors.items()}
        self.layers, self.heads = key("block_count"), key("attention.head_count")
        self.kv_heads, self.head_dim = key("attention.head_count_kv"), key("attention.key_length")
        self.eps, self.base = key("attention.layer_norm_rms_epsilon"), key("rope.freq_base")
        self.lora = {}

    def norm(self, x, name):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.w[name]

    def linear(self, x, name):
        y = x @ self.w[name].T
        if name not in self.lora:
            return y
        a, b = self.lora[name]
        return y + ALPHA / RANK * (x @ a.T) @ b.T

    def rope(self, x):
        """[t, heads, d]: the pair (i, i + d/2) turned by t * base^(-2i/d)."""
        half = self.head_dim // 2
        angle = torch.arange(len(x)).double()[:, None] * self.base ** (-torch.arange(half).double() / half)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def scores(self, ids):
        """Log-probability of every token but the first, and the entropy of what it was drawn from, both `[t - 1]`."""
        ids = torch.tensor(ids)
        x, t = self.w["token_embd"][ids[:-1]], len(ids) - 1
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        for layer in range(self.layers):
            blk = f"blk.{layer}."
            y = self.norm(x, blk + "attn_norm")
            heads = lambda name, count: self.linear(y, blk + name).view(t, count, self.head_dim)
            q = self.rope(self.norm(heads("attn_q", self.heads), blk + "attn_q_norm"))
            k = self.rope(self.norm(heads("attn_k", self.kv_heads), blk + "attn_k_norm"))
            repeat = self.heads // self.kv_heads
            k, v = (z.repeat_interleave(repeat, 1) for z in (k, heads("attn_v", self.kv_heads)))
            scores = torch.einsum("qhd,khd->hqk", q, k) / self.head_dim ** 0.5
            probabilities = scores.masked_fill(future, -torch.inf).softmax(-1)
            attended = torch.einsum("hqk,khd->qhd", probabilities, v).reshape(t, -1)
            x = x + self.linear(attended, blk + "attn_output")
            y = self.norm(x, blk + "ffn_norm")
            x = x + self.linear(F.silu(self.linear(y, blk + "ffn_gate")) * self.linear(y, blk + "ffn_up"), blk + "ffn_down")
        logits = self.norm(x, "output_norm") @ self.w["output"].T
        every = logits.log_softmax(-1)
        return every[torch.arange(t), ids[1:]], -(every.exp() * every).sum(-1)


def make_adapter(model, normal):
    """A of deviation 1/sqrt(in) and a B that moves log-probabilities by some tenths, both float32."""
    lora = {}
    for layer in range(model.layers):
        for target in TARGETS:
            out, width = model.w[name := f"blk.{layer}.{target}"].shape
            lora[name] = tuple(x.float().double().requires_grad_()
                               for x in (normal(RANK, width) / width ** 0.5, normal(out, RANK) * 0.05))
    return lora


# --- the samples ---

def make_samples(prompts):
    """Two groups with shared prompts between the fragments of one trajectory. Turns are (tokens, advantage), results
    (tokens, None)."""
    drawn = [p["f16"]["greedy"]["ids"] for p in prompts]
    ids = [p["ids"] for p in prompts]
    first, second, result = ids[0][-30:], ids[3][-22:], ids[4][-40:]
    rows = [
        (2, ids[7][:9], 5, [(drawn[7][:18], -0.8)]),
        (0, first, 0, [(drawn[0][:40], 0.75)]),
        (0, first, 1, [(drawn[1][:20], -0.5), (result[:8], None), (drawn[2][:24], 0.25)]),
        (0, first, 2, [(drawn[3][:36], -1.0)]),
        (1, second, 3, [(drawn[4][:30], 1.25)]),
        (1, second, 4, [(drawn[5][:16], -1.25), (result[8:14], None), (drawn[6][:20], 0.0)]),
        (3, ids[8][:11], 5, [(drawn[8][:25], 0.6)]),
    ]
    out = []
    for group, prompt, trajectory, parts in rows:
        sample = dict(prefix_group=group, prefix_length=len(prompt) if group < 2 else 0, trajectory=trajectory,
                      tokens=list(prompt), loss_mask=[0] * len(prompt), advantages=[])
        for tokens, advantage in parts:
            sample["tokens"] += tokens
            sample["loss_mask"] += [int(advantage is not None)] * len(tokens)
            sample["advantages"] += [] if advantage is None else [advantage] * len(tokens)
        out.append(sample)
    return out


def trained(model, sample):
    """Log-probabilities and entropies of the trained tokens."""
    mask = torch.tensor(sample["loss_mask"][1:], dtype=torch.bool)
    return [values[mask] for values in model.scores(sample["tokens"])]


# --- the loss ---

def old_logprobs(name, samples, logprobs, uniform):
    """What single precision makes of log p - drift, far enough from the ends of the clip range."""
    case = CASES[name]
    drift = [TOKEN_DRIFT * (2 * uniform(len(lp)) - 1) for lp in logprobs]
    if case["level"] == "token":
        for d in drift:
            for end in (1 - case["clip_low"], 1 + case["clip_high"]):
                d += 0.02 * ((d.exp() - end).abs() < CLIP_MARGIN[name])
    else:
        for trajectory, mean in enumerate(SEQUENCE_DRIFT[name]):
            own = [d for d, s in zip(drift, samples) if s["trajectory"] == trajectory]
            shift = mean - torch.cat(own).mean()
            for d in own:
                d += shift
    return [(lp - d).float().double() for lp, d in zip(logprobs, drift)]


def ratios_of(name, samples, logprobs, old):
    if CASES[name]["level"] == "token":
        return [(lp - o).exp() for lp, o in zip(logprobs, old)]
    out = []
    for sample, lp in zip(samples, logprobs):
        log_ratios = [l - o for l, o, s in zip(logprobs, old, samples) if s["trajectory"] == sample["trajectory"]]
        out.append(torch.cat(log_ratios).mean().exp().detach() * (lp - lp.detach()).exp())
    return out


def evaluate(name, samples, logprobs, old, reference, weights):
    """(loss, ratios, sides) of a case."""
    case, loss, sides = CASES[name], 0.0, []
    low, high = 1 - case["clip_low"], 1 + case["clip_high"]
    ratios = ratios_of(name, samples, logprobs, old)
    for sample, lp, w, r, c in zip(samples, logprobs, ratios, reference, weights):
        a = torch.tensor(sample["advantages"], dtype=torch.float32).double()
        policy = -torch.minimum(w * a, w.clamp(low, high) * a)
        d = r - lp
        kl = case["kl"] * w.detach() * (d.exp() - d - 1)
        loss = loss + ((c * policy if case["weighted"] else policy) + kl).sum() / NORMALIZER
        sides.append(((a > 0) & (w > high)).int() - ((a < 0) & (w < low)).int())
        assert (w - low).abs().min() > CLIP_MARGIN[name] / 2 and (w - high).abs().min() > CLIP_MARGIN[name] / 2
    return loss, ratios, sides


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    uniform = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    model = Model(FOLDER.parent / "tiny-agent-f16.gguf")
    prompts = json.loads(gzip.open(FOLDER / "golden.json.gz").read())["prompts"]
    known = -torch.tensor(prompts[0]["f16"]["nll"], dtype=torch.float64)
    assert (model.scores(prompts[0]["ids"])[0] - known).abs().max() < 1e-10, "this model is not that of the other goldens"
    samples = make_samples(prompts)
    single = lambda rows: [[float(np.float32(v)) for v in row.tolist()] for row in rows]
    with torch.no_grad():
        reference = [trained(model, sample)[0].float().double() for sample in samples]
    lora = model.lora = make_adapter(model, normal)
    parameters = {f"{name}.{half}": x for name, pair in lora.items() for half, x in zip("AB", pair)}
    logprobs, entropies = zip(*(trained(model, sample) for sample in samples))
    weights = [(2 * uniform(len(lp))).float().double() for lp in logprobs]
    golden = dict(rank=RANK, alpha=ALPHA, normalizer=NORMALIZER, samples=samples, cases={})
    columns = zip(*map(single, (logprobs, entropies, reference, weights)))
    for sample, (lp, h, r, c) in zip(samples, columns):
        sample.update(logprobs=lp, entropies=h, reference_logprobs=r, weights=c)
    gradients = {}
    for name, case in CASES.items():
        old = old_logprobs(name, samples, [lp.detach() for lp in logprobs], uniform)
        loss, ratios, sides = evaluate(name, samples, logprobs, old, reference, weights)
        found = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
        gradients.update({f"{name}.{key}": g for key, g in zip(parameters, found)})
        norm = torch.cat([g.flatten() for g in found]).norm()
        golden["cases"][name] = dict(case, loss=float(loss.detach()), gradient_l2=float(norm), old_logprobs=single(old),
                                     ratios=single(ratios), clipped=[side.tolist() for side in sides])
        flat = torch.cat(sides)
        print(f"{name}: loss {float(loss.detach()):.6f}, gradient {float(norm):.6f}, of {len(flat)} tokens "
              f"{int((flat < 0).sum())} clipped below, {int((flat > 0).sum())} above")
        assert (flat < 0).any() and (flat > 0).any() and (flat == 0).any()
    drift = torch.cat([r - lp for r, lp in zip(reference, logprobs)]).detach()
    print(f"reference - policy: mean {float(drift.mean()):.3f}, deviation {float(drift.std()):.3f}")
    folder = FOLDER / "golden-policy"
    folder.mkdir(exist_ok=True)
    write_adapter(folder / "adapter.gguf", {f"{name}.weight.lora_{half}": x.detach()
                                            for name, pair in lora.items() for half, x in zip("ab", pair)})
    write_safetensors(folder / "gradients.safetensors", gradients)
    (FOLDER / "golden-policy.json.gz").write_bytes(
        gzip.compress(json.dumps(golden, separators=(",", ":")).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
