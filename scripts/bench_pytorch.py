#!/usr/bin/env python3
"""Measures PyTorch on the shapes that `deno task bench` measured, and writes the ratios.

    python3 scripts/bench_pytorch.py --bench docs/bench/<device>.jsonl [--out FILE] [--device cuda] [--types float32,...]

Reads the lines of a bench, runs the same products, low-rank products, attention, prefill, decode and training steps in
eager PyTorch on random numbers, and writes a JSON line for each with `ours` (the bench's value), `value` (PyTorch's) and `ratio` = ours /
PyTorch's: above 1 svc is faster. Without --bench it uses the file of --out without "_pytorch".

PyTorch trains a group's members one after the other: only svc shares their prompt. Its decode is a plain
loop over a static cache, without CUDA graphs, which launches as many kernels as eager PyTorch does.

On a processor each is measured with one thread and with all, and the faster counts: a BLAS with threads of its own,
such as libopenblas0-pthread, competes with PyTorch's threads, and with libopenblas0-openmp one thread is one core.
"""
import argparse
import datetime
import json
import math
import os
import sys
import time

import torch
import torch.nn.functional as F

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK = 16


class Timer:
    """Seconds of a call: the fastest of some runs of at least `seconds`."""

    def __init__(self, device, seconds, repetitions):
        self.device, self.enough, self.repetitions = device, seconds, repetitions

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def once(self, call, count):
        self.wait()
        start = time.perf_counter()
        for _ in range(count):
            call()
        self.wait()
        return (time.perf_counter() - start) / count

    def seconds(self, call):
        self.once(call, 1)
        count = max(1, min(1000, math.ceil(self.enough / max(self.once(call, 1), 1e-6))))
        return min(self.once(call, count) for _ in range(self.repetitions))


class Model:
    """qwen3 with low-rank terms on all seven projections; weights in `dtype`, the low-rank matrices in float32."""

    def __init__(self, shape, dtype, device):
        self.s, self.dtype, self.device = shape, dtype, device
        c, d = shape["width"], shape["head_width"]
        q, kv, f = shape["heads"] * d, shape["kv_heads"] * d, shape["feed_forward"]
        sizes = dict(zip(TARGETS, [(q, c), (kv, c), (kv, c), (c, q), (f, c), (f, c), (c, f)]))
        random = lambda rows, columns: torch.randn(rows, columns, device=device).mul_(columns**-0.5)
        self.embedding = torch.randn(shape["vocabulary"], c, device=device).to(dtype)
        self.output = random(shape["vocabulary"], c).to(dtype)
        self.layers = [{t: random(*sizes[t]).to(dtype) for t in TARGETS} for _ in shape["layers"]]
        self.lora = [
            {t: (random(RANK, sizes[t][1]).requires_grad_(), torch.zeros(sizes[t][0], RANK, device=device, requires_grad=True))
             for t in TARGETS}
            for _ in shape["layers"]
        ]
        self.ones = torch.ones(max(c, d), device=device, dtype=dtype)
        half = d // 2
        frequency = shape["layers"][0]["rotation"]["base"] ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
        angle = torch.arange(8192, device=device, dtype=torch.float32)[:, None] * frequency
        self.cos, self.sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def parameters(self):
        return [matrix for layer in self.lora for pair in layer.values() for matrix in pair]

    def norm(self, x):
        width = x.shape[-1]
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.s["norm_eps"])
        return (x.float() * scale).to(self.dtype) * self.ones[:width]

    def linear(self, x, layer, target):
        a, b = self.lora[layer][target]
        return F.linear(x, self.layers[layer][target]) + 2 * F.linear(F.linear(x, a.to(self.dtype)), b.to(self.dtype))

    def rope(self, x, positions):
        """[batch, heads, tokens, d]; positions [tokens]"""
        cos, sin = self.cos[positions], self.sin[positions]
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def layer(self, x, i, positions, attend):
        s, (n, t, _) = self.s, x.shape
        y = self.norm(x)
        split = lambda z, heads: z.view(n, t, heads, s["head_width"]).transpose(1, 2)
        q = self.rope(self.norm(split(self.linear(y, i, "q_proj"), s["heads"])), positions)
        k = self.rope(self.norm(split(self.linear(y, i, "k_proj"), s["kv_heads"])), positions)
        v = split(self.linear(y, i, "v_proj"), s["kv_heads"])
        o = attend(i, q, k, v).transpose(1, 2).reshape(n, t, -1)
        x = x + self.linear(o, i, "o_proj")
        y = self.norm(x)
        h = F.silu(self.linear(y, i, "gate_proj")) * self.linear(y, i, "up_proj")
        return x + self.linear(h, i, "down_proj")

    def forward(self, ids):
        """ids [batch, tokens] -> the normalised state after the last layer."""
        x, positions = self.embedding[ids], torch.arange(ids.shape[1], device=self.device)
        for i in range(len(self.layers)):
            x = self.layer(x, i, positions, lambda _, q, k, v: attention(q, k, v, causal=True))
        return self.norm(x)


def attention(q, k, v, causal=False, mask=None):
    """softmax(q kᵀ / √d) v with fewer key/value heads than query heads."""
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = (z.repeat_interleave(group, 1) for z in (k, v))
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v


class Decoder:
    """Draws with a static cache: every step attends to all of it under a mask."""

    def __init__(self, model, batch, prompt, tokens):
        s, self.model, self.batch, self.prompt, self.tokens = model.s, model, batch, prompt, tokens
        cache = lambda: torch.zeros(len(model.layers), batch, s["kv_heads"], prompt + tokens, s["head_width"], dtype=model.dtype,
                                    device=model.device).normal_()
        self.k, self.v = cache(), cache()
        self.places = torch.arange(prompt + tokens, device=model.device)

    @torch.no_grad()
    def run(self):
        model = self.model
        ids = torch.zeros(self.batch, 1, dtype=torch.long, device=model.device)
        for position in range(self.prompt, self.prompt + self.tokens):
            at = self.places[position:position + 1]
            mask = (self.places <= at)[None, None, None]

            def attend(i, q, k, v):
                self.k[i].index_copy_(2, at, k)
                self.v[i].index_copy_(2, at, v)
                return attention(q, self.k[i], self.v[i], mask=mask)

            x = model.embedding[ids]
            for i in range(len(model.layers)):
                x = model.layer(x, i, at, attend)
            logits = F.linear(model.norm(x)[:, 0], model.output).float()
            gumbel = -torch.log(torch.empty_like(logits).exponential_())
            ids = (logits + gumbel).argmax(-1, keepdim=True)
            logits.log_softmax(-1).gather(1, ids)


def train_step(model, optimizer, ids, first_trained, chunk):
    """Forward, backward and AdamW over all rows, `chunk` sequences at a time; the later tokens are trained."""
    optimizer.zero_grad()
    for part in ids.split(chunk):
        hidden = model.forward(part)[:, first_trained - 1:-1].reshape(-1, model.s["width"])
        loss = F.cross_entropy(F.linear(hidden, model.output).float(), part[:, first_trained:].reshape(-1))
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


class Comparison:
    def __init__(self, args, lines):
        self.args, self.lines, self.out = args, lines, []
        self.timer = Timer(args.device, 0.01 if args.quick else 0.05, 1 if args.quick else 5)
        self.types = [getattr(torch, name) for name in args.types.split(",")]
        self.products, self.models = {}, {}
        own = torch.get_num_threads()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self.threads = sorted({1, own, cores}) if args.device == "cpu" else [own]

    def of(self, bench):
        return [line for line in self.lines if line["bench"] == bench and line["value"] is not None]

    def add(self, line, value, dtype, threads):
        ratio = line["value"] / value
        name = str(dtype).removeprefix("torch.")
        self.out.append({
            "bench": line["bench"], "name": line["name"], "value": float(f"{value:.4g}"), "unit": line["unit"],
            "ours": line["value"], "ratio": float(f"{ratio:.4g}"), "dtype": name, "framework": f"pytorch {torch.__version__}",
            "device": torch.cuda.get_device_name() if self.args.device == "cuda" else f"{threads} threads",
            "cuda": torch.version.cuda if self.args.device == "cuda" else None, "ours_device": line["device"],
            "ours_compute": line.get("compute"), "model": line["model"], "commit": line["commit"],
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
            "load_average": os.getloadavg()[0],
        })
        print(f"{line['bench']:10} {line['name']:48} {name:9} {value:10.4g} {line['unit']:9} ours {line['value']:10.4g}"
              f"  ratio {ratio:.3g}", flush=True)

    def attempt(self, line, dtype, measure):
        """A measurement that the memory has no room for is left out, and says so."""
        def fast(threads):
            torch.set_num_threads(threads)
            return measure(), threads

        try:
            value, threads = max(fast(threads) for threads in self.threads)
            self.add(line, value, dtype, threads)
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            print(f"{line['bench']:10} {line['name']:48} skipped: {str(error).splitlines()[0]}", flush=True)
            self.models.clear()
            torch.cuda.empty_cache()

    def model(self, line, dtype):
        key = (json.dumps(line["model_shape"]), dtype)
        if key not in self.models:
            self.models.clear()
            self.models[key] = Model(line["model_shape"], dtype, self.args.device)
        return self.models[key]

    def run(self):
        only = self.args.only.split(",")
        for dtype in self.types:
            for bench in ["peak", "matmul", "lora", "attention", "prefill", "decode", "train"]:
                if bench in only:
                    for line in self.of(bench):
                        getattr(self, bench)(line, dtype)

    def peak(self, line, dtype):
        if line["unit"] != "GB/s" or dtype != self.types[0]:
            return
        x = torch.randn(line["bytes"] // 4, device=self.args.device)
        y = torch.empty_like(x)
        self.attempt(line, x.dtype, lambda: 2 * line["bytes"] / self.timer.seconds(lambda: y.copy_(x)) / 1e9)

    def matmul(self, line, dtype):
        key = (line["orientation"], line["rows"], line["columns"], line["depth"], dtype)

        def measure():
            own = (*key, torch.get_num_threads())
            if own not in self.products:
                orientation, rows, columns, depth, _ = key
                x = torch.randn(rows, depth, device=self.args.device).to(dtype)
                shape = (columns, depth) if orientation == "nt" else (depth, columns)
                w = [torch.randn(*shape, device=self.args.device).to(dtype) for _ in range(min(8, line["weights"]))]
                turn = [0]

                def product():
                    turn[0] = (turn[0] + 1) % len(w)
                    return F.linear(x, w[turn[0]]) if orientation == "nt" else x @ w[turn[0]]

                self.products[own] = 2 * rows * columns * depth / self.timer.seconds(product) / 1e9
            return self.products[own]

        self.attempt(line, dtype, measure)

    def lora(self, line, dtype):
        """One product of a low-rank term; with the frozen matrix where the service does both in one kernel. Gradients are
        of parameters and stay in float32."""
        rows, rank, inner, outer = (line[key] for key in ("rows", "rank", "in_width", "out_width"))
        is_gradient = line["part"].startswith("gradient")
        used = torch.float32 if is_gradient else dtype
        random = lambda *shape: torch.randn(*shape, device=self.args.device).to(used)

        @torch.no_grad()
        def measure():
            x, y, u = random(rows, inner), random(rows, outer), random(rows, rank)
            a, b, w = random(rank, inner), random(outer, rank), random(outer, inner)
            call = {
                "x·Aᵀ": lambda: F.linear(x, a),
                "x·Wᵀ + u·Bᵀ": lambda: F.linear(x, w) + F.linear(u, b),
                "d_u = d_y·B": lambda: y @ b,
                "d_x += d_y·W + d_u·A": lambda: x.add_(y @ w).add_(u @ a),
                "gradient of A": lambda: u.T @ x,
                "gradient of B": lambda: y.T @ u,
            }[line["part"]]
            return line["flops"] / self.timer.seconds(call) / 1e9

        if not is_gradient or dtype == self.types[0]:
            self.attempt(line, used, measure)

    def attention(self, line, dtype):
        """Sequences of one length without a shared prompt: what a causal mask can say."""
        groups = line.get("groups")
        if not groups or any(group["prompt"] for group in groups):
            return
        lengths = {length for group in groups for length in group["members"]}
        if len(lengths) != 1:
            return
        batch, d = sum(len(group["members"]) for group in groups), line["head_width"]
        random = lambda heads: torch.randn(batch, heads, *lengths, d, device=self.args.device).to(dtype).requires_grad_()
        q, k, v = random(line["heads"]), random(line["kv_heads"]), random(line["kv_heads"])
        is_backward = line["name"].startswith("backward")
        flops = (10 if is_backward else 4) * line["pairs"] * line["heads"] * d

        def measure():
            if not is_backward:
                with torch.no_grad():
                    return flops / self.timer.seconds(lambda: attention(q, k, v, causal=True)) / 1e9
            o = attention(q, k, v, causal=True)
            d_o = torch.randn_like(o)
            return flops / self.timer.seconds(
                lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)) / 1e9

        self.attempt(line, dtype, measure)

    def tokens(self, line, sequences, length):
        return torch.randint(line["model_shape"]["vocabulary"], (sequences, length), device=self.args.device)

    @torch.no_grad()
    def prefill(self, line, dtype):
        def measure():
            model, ids = self.model(line, dtype), self.tokens(line, line["sequences"], line["tokens"])
            seconds = self.timer.seconds(lambda: F.linear(model.forward(ids)[:, -1], model.output))
            return ids.numel() / seconds

        self.attempt(line, dtype, measure)

    def decode(self, line, dtype):
        def measure():
            decoder = Decoder(self.model(line, dtype), line["batch"], line["prompt"], min(64, line["tokens"]))
            decoder.run()
            return line["batch"] * decoder.tokens / min(self.timer.once(decoder.run, 1) for _ in range(3))

        self.attempt(line, dtype, measure)

    def train(self, line, dtype):
        if line["unit"] != "tokens/s":
            return
        if "members" in line:
            sequences, length, first = line["members"], line["prompt"] + line["completion"], line["prompt"]
        else:
            sequences, length, first = line["sequences"], line["sequence_tokens"], line["sequence_tokens"] // 2

        def measure():
            model, ids = self.model(line, dtype), self.tokens(line, sequences, length)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
            chunk = max(1, line["micro_batch_tokens"] // length)
            return ids.numel() / self.timer.seconds(lambda: train_step(model, optimizer, ids, first, chunk))

        self.attempt(line, dtype, measure)


def parse_args():
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description="PyTorch on the shapes that `deno task bench` measured")
    parser.add_argument("--bench", help="the bench's JSON lines")
    parser.add_argument("--out", help="where the comparison goes; printed only when left out")
    parser.add_argument("--device", default="cuda" if cuda else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--types", default="float32,float16,bfloat16" if cuda else "float32")
    parser.add_argument("--only", default="peak,matmul,lora,attention,prefill,decode,train")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.bench = args.bench or (args.out and args.out.replace("_pytorch", ""))
    if not args.bench or args.bench == args.out or not os.path.exists(args.bench):
        parser.error(f"Cannot compare with {args.bench}: run `deno task bench` first and name its file with --bench")
    return args


def main():
    args = parse_args()
    with open(args.bench, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    # svc multiplies in f32 with f32 sums; TF32 would be a different arithmetic.
    torch.backends.cuda.matmul.allow_tf32 = False
    comparison = Comparison(args, lines)
    try:
        comparison.run()
    finally:
        if args.out:
            with open(args.out, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in comparison.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
