#!/usr/bin/env python3
"""What PyTorch reaches on the shapes of scripts/bench.ts, for the ratio: one JSON line a measurement.

Needs torch; training and decoding also need transformers and peft. Times are medians of repeated runs after a
warm-up, measured with the device drained.

  python3 scripts/bench_pytorch.py --out result.jsonl [--device cuda|cpu] [--quick]
"""

import argparse
import json
import statistics
import time

import torch

# The model of `deno task make-model --shape 0.5b`.
SHAPE = {
    "width": 896, "layers": 24, "heads": 14, "kv_heads": 2, "head_width": 64, "feed_forward": 4864, "vocabulary": 151936,
}
TINY = {
    "width": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_width": 32, "feed_forward": 128, "vocabulary": 1024,
}
RANK, ALPHA = 8, 16
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def median_seconds(run, device, repeats):
    """Median wall time of `run` after one warm-up."""
    def drained():
        if device == "cuda":
            torch.cuda.synchronize()
    run()
    drained()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        drained()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def matmul_shapes(shape, rows):
    """[M, K] x [N, K]^T as the layers of the model ask for them: name, M, N, K."""
    query = shape["heads"] * shape["head_width"]
    key = shape["kv_heads"] * shape["head_width"]
    return [
        ("q_proj", rows, query, shape["width"]),
        ("k_proj", rows, key, shape["width"]),
        ("o_proj", rows, shape["width"], query),
        ("gate_proj", rows, shape["feed_forward"], shape["width"]),
        ("down_proj", rows, shape["width"], shape["feed_forward"]),
        ("output", min(rows, 1024), shape["vocabulary"], shape["width"]),
    ]


def bench_matmul(shape, options):
    for dtype in options.dtypes:
        for name, m, n, k in matmul_shapes(shape, options.rows):
            a = torch.randn(m, k, device=options.device, dtype=DTYPES[dtype])
            b = torch.randn(n, k, device=options.device, dtype=DTYPES[dtype])
            seconds = median_seconds(lambda: torch.matmul(a, b.T), options.device, options.repeats)
            yield {
                "bench": "matmul", "name": name, "m": m, "n": n, "k": k, "type": dtype,
                "gflops": 2 * m * n * k / seconds / 1e9,
            }


def make_model(shape, dtype, device):
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=shape["vocabulary"], hidden_size=shape["width"], intermediate_size=shape["feed_forward"],
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"], head_dim=shape["head_width"], tie_word_embeddings=False,
        max_position_embeddings=32768,
    )
    torch.manual_seed(1)
    model = Qwen3ForCausalLM(config).to(device=device, dtype=DTYPES[dtype])
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    lora = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM")
    return get_peft_model(model, lora)


def bench_training(shape, options):
    """A LoRA step: forward, backward and AdamW over `batch` packed sequences of `length` tokens, each trained."""
    for dtype in (name for name in options.dtypes if name != "f16"):  # f16 would need a loss scale
        model = make_model(shape, dtype, options.device)
        model.train()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
        ids = torch.randint(0, shape["vocabulary"], (options.batch, options.length), device=options.device)

        def step():
            optimizer.zero_grad(set_to_none=True)
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()

        seconds = median_seconds(step, options.device, options.repeats)
        yield {
            "bench": "train", "batch": options.batch, "length": options.length, "rank": RANK, "type": dtype,
            "tokens_per_second": options.batch * options.length / seconds,
        }
        del model, optimizer


def bench_inference(shape, options):
    """Prefill of whole prompts, then greedy decoding with a growing cache, by batch size."""
    for dtype in options.dtypes:
        model = make_model(shape, dtype, options.device).eval()
        for batch in options.batches:
            ids = torch.randint(0, shape["vocabulary"], (batch, options.prompt), device=options.device)

            @torch.no_grad()
            def prefill():
                return model(input_ids=ids, use_cache=True, logits_to_keep=1)

            @torch.no_grad()
            def decode():
                state = prefill()
                if options.device == "cuda":
                    torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(options.new_tokens):
                    token = state.logits[:, -1:].argmax(-1)
                    state = model(input_ids=token, past_key_values=state.past_key_values, use_cache=True)
                token.cpu()
                return time.perf_counter() - start

            seconds = median_seconds(prefill, options.device, options.repeats)
            row = {"batch": batch, "prompt": options.prompt, "type": dtype}
            yield {"bench": "prefill", **row, "tokens_per_second": batch * options.prompt / seconds}
            decode()
            seconds = statistics.median(decode() for _ in range(max(1, options.repeats // 3)))
            yield {"bench": "decode", **row, "tokens_per_second": batch * options.new_tokens / seconds}
        del model


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the program")
    options = parser.parse_args()
    quick = options.quick
    options.dtypes = ["f32"] if quick else ["f32", "f16", "bf16"]
    options.rows = 64 if quick else 4096
    options.repeats = 3 if quick else 9
    options.batch, options.length = (2, 16) if quick else (8, 1024)
    options.batches = [1, 2] if quick else [1, 8, 32, 128]
    options.prompt, options.new_tokens = (8, 4) if quick else (256, 64)
    return options


def main():
    options = parse_options()
    # Full f32, as the shaders compute it; TF32 would round the operands to 10 bits.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    shape = TINY if options.quick else SHAPE
    device_name = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    common = {"program": "pytorch", "version": torch.__version__, "device": device_name}
    benches = [bench_matmul]
    try:
        import peft  # noqa: F401
        import transformers  # noqa: F401
        benches += [bench_training, bench_inference]
    except ImportError as missing:
        print(f"without training and decoding: {missing}", flush=True)
    with open(options.out, "w", encoding="utf-8") as out:
        for bench in benches:
            for row in bench(shape, options):
                line = json.dumps({**common, **row})
                print(line, flush=True)
                out.write(f"{line}\n")
                out.flush()


if __name__ == "__main__":
    main()
