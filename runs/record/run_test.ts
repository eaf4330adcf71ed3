import assert from "node:assert/strict";
import {
  ACCEPTED,
  commandRefusal,
  failureReason,
  isLive,
  RUN_COMMANDS,
  RUN_STATES,
  TRANSITIONS,
} from "./run.ts";
import type { RunCommand, RunState } from "./run.ts";

const ALL = { has_checkpoint: true, checkpoint_configured: true, has_heldout: true };
const NONE = { has_checkpoint: false, checkpoint_configured: false, has_heldout: false };

/** A row for each command, a column for each state: y accepted, c accepted under its condition, . refused. */
const TABLE: Record<RunCommand, string> = {
  //           queued starting running pausing paused stopping completed cancelled failed interrupted
  pause: "       .      .        y       .       .      .        .         .         .      .",
  resume: "      .      .        .       .       y      .        .         .         c      y",
  cancel: "      y      y        y       y       y      y        .         .         .      y",
  checkpoint: "  .      .        c       .       y      .        .         .         .      .",
  evaluate: "    .      .        c       .       c      .        c         .         .      .",
  generate: "    .      .        y       .       y      .        y         .         .      .",
  set_lr: "      y      y        y       y       y      .        .         .         .      .",
  fork: "        .      .        .       .       c      .        c         c         c      c",
  delete: "      .      .        .       .       .      .        y         y         y      y",
};

for (const command of RUN_COMMANDS) {
  const cells = TABLE[command].trim().split(/\s+/);
  RUN_STATES.forEach((state, i) => {
    Deno.test(`${command} in ${state}: ${cells[i]}`, () => {
      assert.equal(commandRefusal(command, state, ALL) === null, cells[i] !== ".");
      assert.equal(commandRefusal(command, state, NONE) === null, cells[i] === "y");
    });
  });
}

Deno.test("a refusal has a reason", () => {
  assert.equal(commandRefusal("pause", "paused", ALL), "the run is paused");
  assert.match(commandRefusal("evaluate", "running", NONE)!, /held-out/);
});

Deno.test("the diagram of states holds", () => {
  const path = (...states: RunState[]) =>
    states.slice(1).every((state, i) => TRANSITIONS[states[i]!].includes(state));
  assert.ok(path("queued", "starting", "running", "pausing", "paused", "starting"));
  assert.ok(path("running", "stopping", "cancelled"));
  assert.ok(path("running", "completed") && path("running", "failed", "queued"));
  assert.ok(path("paused", "queued") && path("interrupted", "starting"));
  assert.ok(!path("completed", "running") && !path("queued", "running"));
  for (const state of RUN_STATES) {
    assert.equal(TRANSITIONS[state].includes("interrupted"), isLive(state), `${state} when the process dies`);
  }
});

Deno.test("every accepted cancel leads to cancelled", () => {
  for (const state of Object.keys(ACCEPTED.cancel) as RunState[]) {
    const next = TRANSITIONS[state];
    assert.ok(next.includes("cancelled") || next.includes("stopping"), state);
  }
});

Deno.test("an error's code gives the reason", () => {
  assert.equal(failureReason("device_lost"), "device_lost");
  assert.equal(failureReason("format_invalid"), "data_invalid");
  assert.equal(failureReason("conflict"), "internal");
});
