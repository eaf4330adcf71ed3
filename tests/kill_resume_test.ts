/** Kill -9, then `--resume`: the real program, on the real engine, ends with the bytes of an uninterrupted run. */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { withFolder } from "./folder.ts";
import { assertSameRuns, configIn, isUpdate } from "./killed_run.ts";
import { trainSmall } from "./small_agent.ts";

gpuTest("kill -9 and --resume give the bytes of the uninterrupted run", () =>
  withFolder(async (root) => {
    const keys = {
      "training.lr": 3e-3,
      "agent.updates": 3,
      "agent.max_turns": 3,
      "agent.max_update_kl": 1e-4,
    };
    const whole = await trainSmall(await configIn(root, "whole", keys));
    assert.equal(whole.code, 0, whole.printed);
    // The bound shortens every step, and a checkpoint must include that.
    const scales = whole.events.flatMap((event) =>
      event.kind === "metrics" ? event.values["optimizer/step_scale"] ?? [] : []
    );
    assert.ok(scales.length === 3 && scales.every((scale) => 0 < scale && scale < 1), scales.join());
    const config = await configIn(root, "killed", keys), args = ["--resume"];
    // During the first update's episodes; then in the second update, before its checkpoint is complete.
    const killAt = (event: RunEvent) => event.kind === "state" && event.state === "running";
    assert.notEqual((await trainSmall(config, { killAt })).code, 0);
    assert.notEqual((await trainSmall(config, { args, killAt: isUpdate(2) })).code, 0);
    const last = await trainSmall(config, { args });
    assert.equal(last.code, 0, last.printed);
    await assertSameRuns(root, 3);
    const started = last.events.find((event) => event.kind === "state");
    assert.match(started!.checkpoint!, /^update_00000[12]$/);
  }));
