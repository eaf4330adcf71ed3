#!/usr/bin/env python3
"""Golden values of the losses of pairs, in float64 and by automatic differentiation: none of this project's code computes them.

    pip install torch numpy        # made with torch 2.13.0+cpu
    python3 tests/golden/preference_golden.py

Reads what policy_golden.py reads and its adapter, and writes `golden-preference/gradients.safetensors`
(`<loss>.<tensor>.<A|B>`, rounded; to be packed) and `golden-preference.json.gz` into fixtures/models/tiny-agent. Every sample is
a pass of its own: no prompt is shared, nothing is packed or cut. The reference policy is the model without the adapter.

With the log-probability of a completion Y (a sum over its trained tokens, of all of its samples), its mean y, and the
reference's Y_ref and y_ref; w the chosen one, l the rejected one; P pairs:

    dpo    sum -log sigmoid(beta ((Y_w - Y_ref_w) - (Y_l - Y_ref_l))) / P
    ipo    sum ((y_w - y_ref_w) - (y_l - y_ref_l) - 1 / (2 beta))^2 / P
    simpo  sum -log sigmoid(beta (y_w - y_l) - gamma) / P
    orpo   sum (-y_w - lambda log sigmoid(log odds_w - log odds_l)) / P,   odds = exp(y) / (1 - exp(y))
"""
import gzip
import json

import numpy as np
import torch
import torch.nn.functional as F

from policy_golden import FOLDER, Model, make_adapter, read_gguf, trained, write_safetensors

LOSSES = {
    "dpo": dict(beta=0.1, gamma=0.0, **{"lambda": 0.0}),
    "ipo": dict(beta=0.1, gamma=0.0, **{"lambda": 0.0}),
    "simpo": dict(beta=2.0, gamma=1.0, **{"lambda": 0.0}),
    "orpo": dict(beta=0.1, gamma=0.0, **{"lambda": 0.5}),
}


def make_samples(prompts):
    """Three pairs: with a result of a tool in the middle, with a completion in two samples, and of lengths far apart."""
    drawn = [p["f16"]["greedy"]["ids"] for p in prompts]
    ids = [p["ids"] for p in prompts]
    first, second, third, result = ids[0][-30:], ids[3][-22:], ids[7][:9], ids[4][-40:]
    rows = [
        (0, first, 0, False, [(drawn[0][:40], 1)]),
        (0, first, 0, True, [(drawn[1][:20], 1), (result[:8], 0), (drawn[2][:24], 1)]),
        (1, second, 1, False, [(drawn[4][:30], 1)]),
        (1, second, 1, True, [(drawn[5][:16], 1)]),
        (2, ids[8][:17], 1, True, [(drawn[6][:12], 1)]),
        (3, third, 2, False, [(drawn[7][:5], 1)]),
        (3, third, 2, True, [(drawn[8][:44], 1)]),
    ]
    return [dict(prefix_group=group, prefix_length=len(prompt) if group != 2 else 0, trajectory=pair, rejected=rejected,
                 tokens=list(prompt) + [t for tokens, _ in parts for t in tokens],
                 loss_mask=[0] * len(prompt) + [m for tokens, m in parts for _ in tokens])
            for group, prompt, pair, rejected, parts in rows]


def completions(samples, logprobs):
    """By pair the log-probabilities of the chosen and of the rejected completion, of all of their samples."""
    pairs = sorted({s["trajectory"] for s in samples})
    of = lambda pair, side: torch.cat([lp for s, lp in zip(samples, logprobs) if (s["trajectory"], s["rejected"]) == (pair, side)])
    return [(of(pair, False), of(pair, True)) for pair in pairs]


def loss_of(name, own, reference):
    """(loss of one pair, scores of both completions)"""
    beta, gamma, factor = (LOSSES[name][key] for key in ("beta", "gamma", "lambda"))
    (w, l), (ref_w, ref_l) = own, reference
    if name == "dpo":
        scores = beta * (w.sum() - ref_w.sum()), beta * (l.sum() - ref_l.sum())
        return -F.logsigmoid(scores[0] - scores[1]), scores
    if name == "ipo":
        scores = w.mean() - ref_w.mean(), l.mean() - ref_l.mean()
        return (scores[0] - scores[1] - 1 / (2 * beta)) ** 2, scores
    if name == "simpo":
        scores = beta * w.mean(), beta * l.mean()
        return -F.logsigmoid(scores[0] - scores[1] - gamma), scores
    odds = lambda y: y - torch.log1p(-torch.exp(y))
    scores = odds(w.mean()), odds(l.mean())
    return -w.mean() - factor * F.logsigmoid(scores[0] - scores[1]), scores


def main():
    torch.set_num_threads(1)
    model = Model(FOLDER.parent / "tiny-agent-f16.gguf")
    prompts = json.loads(gzip.open(FOLDER / "golden.json.gz").read())["prompts"]
    known = -torch.tensor(prompts[0]["f16"]["nll"], dtype=torch.float64)
    assert (model.scores(prompts[0]["ids"])[0] - known).abs().max() < 1e-10, "this model is not that of the other goldens"
    samples = make_samples(prompts)
    with torch.no_grad():
        reference = [trained(model, sample)[0].float().double() for sample in samples]
    _, stored = read_gguf(FOLDER / "golden-policy/adapter.gguf")
    names = make_adapter(model, lambda *shape: torch.zeros(*shape, dtype=torch.float64))
    model.lora = {name: tuple(torch.from_numpy(stored[f"{name}.weight.lora_{half}"].copy()).requires_grad_() for half in "ab")
                  for name in names}
    parameters = {f"{name}.{half}": x for name, pair in model.lora.items() for half, x in zip("AB", pair)}
    logprobs = [trained(model, sample)[0] for sample in samples]
    single = lambda rows: [[float(np.float32(v)) for v in row.tolist()] for row in rows]
    for sample, lp, r in zip(samples, single(logprobs), single(reference)):
        sample.update(logprobs=lp, reference_logprobs=r)
    golden, gradients = dict(samples=samples, cases={}), {}
    pairs = list(zip(completions(samples, logprobs), completions(samples, reference)))
    for name, options in LOSSES.items():
        losses, scores = zip(*(loss_of(name, own, ref) for own, ref in pairs))
        loss = sum(losses) / len(pairs)
        found = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
        gradients.update({f"{name}.{key}": g for key, g in zip(parameters, found)})
        norm = torch.cat([g.flatten() for g in found]).norm()
        golden["cases"][name] = dict(options, loss=float(loss.detach()), gradient_l2=float(norm),
                                     scores=[[float(s.detach()) for s in both] for both in scores])
        margins = ", ".join(f"{float((w - l).detach()):.3f}" for w, l in scores)
        print(f"{name}: loss {float(loss.detach()):.6f}, gradient {float(norm):.6f}, margins {margins}")
    folder = FOLDER / "golden-preference"
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "gradients.safetensors", gradients)
    (FOLDER / "golden-preference.json.gz").write_bytes(
        gzip.compress(json.dumps(golden, separators=(",", ":")).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
