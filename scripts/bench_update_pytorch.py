#!/usr/bin/env python3
"""Seconds of GRPO updates in PyTorch, for `deno task bench-update`: the same work by code that shares nothing with this project.

Runs fixtures/models/tiny-agent/recipe/grpo_reference.py without its evaluations and prints a JSON line for each update:
the seconds of its rollouts and of its training, its attempts, and the tokens that the model wrote and that were trained on.
"""
import argparse
import json
import sys
import time
from pathlib import Path

AGENT = Path(__file__).resolve().parents[1] / "fixtures/models/tiny-agent"

sys.dont_write_bytecode = True  # nothing is written into fixtures/
sys.path.insert(0, str(AGENT / "recipe"))
import grpo_reference  # noqa: E402

OPTIONS = ("model", "tokenizer", "scenarios", "updates", "groups", "size", "seed", "threads")


class Watch:
    """Stands in for the reference's `rollouts`, `summary` and `print`, and keeps when each update rolled out."""

    def __init__(self):
        self.rollouts, self.started, self.rolled_out, self.done = grpo_reference.rollouts, 0.0, 0.0, []

    def roll_out(self, *rest, **options):
        if "make" not in options:
            return []  # an evaluation
        self.started = time.perf_counter()
        self.done = self.rollouts(*rest, **options)
        self.rolled_out = time.perf_counter()
        return self.done

    def tell(self, text, *_, **__):
        if not text.startswith("update"):
            return
        now = time.perf_counter()
        print(json.dumps({
            "rollout_seconds": self.rolled_out - self.started,
            "train_seconds": now - self.rolled_out,
            "attempts": len(self.done),
            "tokens": int(sum(sum(t.mine) for t in self.done)),
        }), flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option in OPTIONS:
        ap.add_argument(f"--{option}", required=True)
    asked = vars(ap.parse_args())
    watch = Watch()
    grpo_reference.rollouts, grpo_reference.summary = watch.roll_out, lambda *_: {}
    grpo_reference.print = watch.tell
    sys.argv = [sys.argv[0], "--every", asked["updates"]] + [part for o in OPTIONS for part in (f"--{o}", asked[o])]
    grpo_reference.main()


if __name__ == "__main__":
    main()
