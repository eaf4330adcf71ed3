#!/usr/bin/env python3
"""The learning grid's reference: the same experiment in PyTorch, by code that shares nothing with this project.

    pip install torch numpy        # made with torch 2.13.0+cpu
    python3 scripts/learn_grid_pytorch.py [--seeds 1,2] [--rates 3e-3] [--threads 1]

Runs fixtures/models/tiny-agent/recipe/grpo_reference.py once for each seed and learning rate and appends a line for each
(`by`: "pytorch") to docs/experiments/learning_rates.jsonl. Runs with a line are not repeated. The held-out scenarios are attempted
before and after training, 8 attempts each, with the same random numbers in all runs; they differ from those of this
program, so rises are comparable, but pass rates only roughly. `deno task learn-grid --report` adds the lines to the report.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AGENT = ROOT / "fixtures/models/tiny-agent"
LINES = ROOT / "docs/experiments/learning_rates.jsonl"
SEEDS, RATES = "1,2,3,4,5,7", "3e-3,6e-3,1.5e-3"
UPDATES = 20

sys.dont_write_bytecode = True  # nothing is written into fixtures/
sys.path.insert(0, str(AGENT / "recipe"))
import grpo_reference  # noqa: E402


class HeldOut:
    """Stands in for the reference's `rollouts` and `summary`, and keeps what each held-out scenario came to.

    The attempts before training do not depend on the run: they are made once."""

    def __init__(self):
        self.rollouts, self.summary = grpo_reference.rollouts, grpo_reference.summary
        self.before, self.evaluations = None, []

    def run(self, model, *rest, **options):
        evaluating = "make" not in options
        if not evaluating:
            return self.rollouts(model, *rest, **options)
        if self.before is None:
            self.before = self.rollouts(model, *rest, **options)
        return self.rollouts(model, *rest, **options) if self.evaluations else self.before

    def count(self, done, samples):
        passes = {}  # in the order of the scenarios
        for t in done:
            name = t.scenario["id"]
            passes[name] = passes.get(name, 0) + (t.reward > 0)
        self.evaluations.append({
            "update": UPDATES if self.evaluations else 0,
            "pass_rate": sum(passes.values()) / len(done),
            "passes": "".join(str(n) for n in passes.values()),
        })
        return self.summary(done, samples)


def main():
    ap = argparse.ArgumentParser(description="The learning grid's reference in PyTorch.")
    ap.add_argument("--seeds", default=SEEDS)
    ap.add_argument("--rates", default=RATES)
    ap.add_argument("--threads", default="1")
    a = ap.parse_args()
    made = [json.loads(line) for line in LINES.read_text().splitlines()] if LINES.exists() else []
    done = {(line["seed"], line["lr"]) for line in made if line["by"] == "pytorch"}
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    held = HeldOut()
    grpo_reference.rollouts, grpo_reference.summary = held.run, held.count
    for rate in a.rates.split(","):
        for seed in a.seeds.split(","):
            if (int(seed), float(rate)) in done:
                continue
            held.evaluations = []
            sys.argv = [
                "grpo_reference.py", "--model", str(AGENT.parent / "tiny-agent-f16.gguf"), "--tokenizer",
                str(AGENT / "recipe/tokenizer.json"), "--scenarios", str(AGENT), "--updates", str(UPDATES), "--samples", "8", "--every",
                str(UPDATES), "--lr", rate, "--seed", seed, "--threads", a.threads,
            ]
            grpo_reference.main()
            line = {
                "by": "pytorch", "seed": int(seed), "lr": float(rate), "max_update_kl": 0,
                "commit": commit.stdout.strip(), "evaluations": held.evaluations, "by_update": {},
            }
            with LINES.open("a", encoding="utf-8") as f:
                f.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
