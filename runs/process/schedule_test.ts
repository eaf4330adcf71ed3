import assert from "node:assert/strict";
import { learningRate, type Schedule } from "./schedule.ts";

const rates = (schedule: Partial<Schedule>, steps: number) =>
  Array.from(
    { length: steps },
    (_, step) =>
      learningRate({
        learning_rate: 1,
        lr_scheduler: "constant",
        warmup_steps: 0,
        total_steps: steps,
        used_time: 0,
        ...schedule,
      }, step),
  );

function near(actual: number[], expected: number[]) {
  assert.equal(actual.length, expected.length);
  actual.forEach((value, i) =>
    assert.ok(Math.abs(value - expected[i]!) < 1e-12, `${i}: ${value}, ${expected[i]}`)
  );
}

Deno.test("constant stays", () => near(rates({}, 3), [1, 1, 1]));

Deno.test("the warm-up ends at the full rate", () => {
  near(rates({ warmup_steps: 4 }, 6), [0.25, 0.5, 0.75, 1, 1, 1]);
});

Deno.test("linear falls in equal steps", () => {
  near(rates({ lr_scheduler: "linear" }, 4), [1, 0.75, 0.5, 0.25]);
  near(rates({ lr_scheduler: "linear", warmup_steps: 2 }, 6), [0.5, 1, 1, 0.75, 0.5, 0.25]);
});

Deno.test("cosine is at half in the middle", () => {
  near(rates({ lr_scheduler: "cosine" }, 4), [1, (1 + Math.SQRT1_2) / 2, 0.5, (1 - Math.SQRT1_2) / 2]);
});

Deno.test("the last step has λ/(T − W) or λ sin²(π/2(T − W)), and a warm-up that is longer than the run λ T/W", () => {
  const whole = { warmup_steps: 10, total_steps: 110 };
  const last = (lr_scheduler: Schedule["lr_scheduler"]) => rates({ ...whole, lr_scheduler }, 110).at(-1)!;
  near([last("constant"), last("linear"), last("cosine")], [1, 1 / 100, Math.sin(Math.PI / 200) ** 2]);
  for (const lr_scheduler of ["constant", "linear", "cosine"] as const) {
    const all = rates({ ...whole, lr_scheduler }, 110);
    near([all[0]!, all[9]!, all[10]!], [1 / 10, 1, 1]);
    near([rates({ lr_scheduler, warmup_steps: 8 }, 4).at(-1)!], [4 / 8]);
  }
});

Deno.test("after the last step the rate is zero, and no step divides by zero", () => {
  assert.equal(
    learningRate(
      { learning_rate: 1, lr_scheduler: "linear", warmup_steps: 2, total_steps: 2, used_time: 0 },
      3,
    ),
    0,
  );
});

Deno.test("without a known number of steps the rate falls with the time, after the warm-up", () => {
  const unknown = { warmup_steps: 2, total_steps: null, used_time: 0.25 };
  near(rates(unknown, 4), [0.5, 1, 1, 1]);
  near(rates({ ...unknown, lr_scheduler: "linear" }, 4), [0.5, 1, 0.75, 0.75]);
  near(rates({ ...unknown, lr_scheduler: "cosine", used_time: 1 / 3 }, 3), [0.5, 1, 0.75]);
});
