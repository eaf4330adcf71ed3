/** Requests to evaluate and to generate, about runs in every state. */

import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { MAX_COMMAND_BYTES } from "../process/control.ts";
import { readEvents } from "../record/event_log.ts";
import { openGate, withFleet } from "./fleet_testing.ts";
import type { ManagedRun } from "./managed_run.ts";
import type { LiveRequestBody } from "./run_child.ts";
import { PROCESS_CONFIG } from "./service_record.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const never = new AbortController().signal;
const limit = { timeout_ms: 60_000, signal: never };

const generate = (
  more: Partial<Extract<LiveRequestBody, { command: "generate" }>> = {},
): LiveRequestBody => ({
  ...{ command: "generate", messages: [{ role: "user", content: "abc" }], tools: [], max_new_tokens: 20 },
  ...{ temperature: 1, top_p: 1, seed: 7, adapter: true },
  ...more,
});
const EVALUATE: LiveRequestBody = { command: "evaluate", limit: 2 };

const adapterOf = (run: ManagedRun) => Deno.readTextFile(`${run.directory}/adapter.gguf`);

/** A refusal's code, and whether its message matches. */
const refused = (code: string, message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof ServiceError, String(error));
  assert.equal(error.code, code, error.message);
  assert.match(error.message, message);
  return true;
};

interface Generated {
  token_ids: number[];
  logprobs: number[];
  stop_reason: string;
  usage: { prompt_tokens: number; completion_tokens: number };
}

Deno.test(
  "a live run answers itself, and its adapter is that of a run that was not asked",
  strict,
  async () => {
    let expected = "";
    await withFleet(async (fleet) => {
      const run = await fleet.create();
      await fleet.until(run, "completed");
      expected = await adapterOf(run);
    });
    await withFleet(async (fleet, folder) => {
      const gate = `${folder}/gate`, run = await fleet.create({ gate });
      await fleet.until(run, "running");
      const asked = [
        fleet.fleet.ask(run.id, generate(), limit),
        fleet.fleet.ask(run.id, EVALUATE, limit),
      ];
      await openGate(gate, 1);
      const again = fleet.fleet.ask(run.id, generate({ seed: 8 }), limit);
      const [first, evaluation] = await Promise.all(asked) as [Generated, { scenarios: unknown[] }];
      assert.equal(first.usage.completion_tokens, first.token_ids.length);
      assert.equal(first.logprobs.length, first.token_ids.length);
      assert.equal(evaluation.scenarios.length, 2);
      await again;
      await openGate(gate, 2, 3);
      await fleet.until(run, "completed");
      assert.equal(await adapterOf(run), expected);
      const events = await Array.fromAsync(readEvents(run.eventsPath));
      const commands = events.flatMap((event) => event.kind === "command" ? [event.arguments] : []);
      assert.deepEqual(commands.find(({ seed }) => seed === 7), {
        ...{ max_new_tokens: 20, temperature: 1, top_p: 1, seed: 7, adapter: true, messages: 1, tools: 0 },
      });
    });
  },
);

Deno.test(
  "a paused and a completed run are answered by a process that frees the device",
  strict,
  async () => {
    await withFleet(async (fleet, folder) => {
      const gate = `${folder}/gate`, run = await fleet.create({ gate });
      await fleet.until(run, "running");
      const base = await fleet.fleet.ask(run.id, generate({ adapter: false }), limit) as Generated;
      await fleet.fleet.command(run.id, { command: "pause" });
      await openGate(gate, 1);
      await fleet.until(run, "paused");
      const paused = await fleet.fleet.ask(run.id, generate(), limit);
      assert.equal(run.child, null);
      const evaluated = await fleet.fleet.ask(run.id, EVALUATE, limit) as { scenarios: unknown[] };
      assert.equal(evaluated.scenarios.length, 2);
      await openGate(gate, 2, 3);
      await fleet.fleet.command(run.id, { command: "resume" });
      await fleet.until(run, "completed");
      const completed = await fleet.fleet.ask(run.id, generate(), limit) as Generated;
      assert.notDeepEqual(completed.logprobs, (paused as Generated).logprobs);
      const named = (checkpoint: string) => fleet.fleet.ask(run.id, generate({ checkpoint }), limit);
      assert.deepEqual(await named("update_000003"), completed);
      assert.deepEqual(await fleet.fleet.ask(run.id, generate({ adapter: false }), limit), base);
      await assert.rejects(
        named("update_000009"),
        refused("config_invalid", /there is no checkpoint update_000009/),
      );
      assert.ok(fleet.fleet.device.hasSlot());
    });
  },
);

Deno.test("states that accept no request refuse it, and so does a device that is taken", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const gate = `${folder}/gate`, ask = (run: ManagedRun) => fleet.fleet.ask(run.id, generate(), limit);
    const first = await fleet.create({ updates: 1 });
    await fleet.until(first, "completed");
    await fleet.fleet.idle(first.id);
    const second = await fleet.create({ gate });
    const waiting = await fleet.create({ gate });
    await assert.rejects(ask(waiting), refused("conflict", /the run is queued/));
    await assert.rejects(ask(first), refused("device_unavailable", /runs are training/));
    await fleet.fleet.command(waiting.id, { command: "cancel", at: "now", checkpoint: false });
    await assert.rejects(ask(waiting), refused("conflict", /the run is cancelled/));
    await fleet.until(second, "running");
    second.child!.kill();
    await fleet.until(second, "interrupted");
    await assert.rejects(ask(second), refused("conflict", /the run is interrupted/));
    const loan = fleet.fleet.device.lend("serving");
    await assert.rejects(ask(first), refused("device_unavailable", /serves a model/));
    loan.release();
    await fleet.fleet.delete(first.id);
    await assert.rejects(ask(first), refused("conflict", /has been deleted/));
  }, { max_queued: 1 });
});

Deno.test("an answer that takes too long is given up, and the run is told", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const gate = `${folder}/gate`, run = await fleet.create({ gate, hang: 20 });
    await fleet.until(run, "running");
    // More than a run answers at a time.
    const late = Array.from({ length: 6 }, () =>
      assert.rejects(
        fleet.fleet.ask(run.id, generate(), { timeout_ms: 300, signal: never }),
        refused("cancelled", /no answer after 0.3 seconds/),
      ));
    await Promise.all(late);
    const left = new AbortController(), reason = new Error("the client left");
    const leaving = assert.rejects(
      fleet.fleet.ask(run.id, generate(), { ...limit, signal: left.signal }),
      reason,
    );
    left.abort(reason);
    await leaving;
    // An evaluation waits for all of them.
    await fleet.fleet.ask(run.id, EVALUATE, limit);
    await openGate(gate, 1, 2, 3);
    await fleet.until(run, "completed");
    await assert.rejects(
      fleet.fleet.ask(run.id, generate(), { timeout_ms: 2000, signal: never }),
      refused("cancelled", /no answer/),
    );
    assert.ok(fleet.fleet.device.hasSlot());
  });
});

Deno.test("a request to a run that is ending is answered when it has ended", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const gate = `${folder}/gate`, run = await fleet.create({ gate, updates: 1, hang: 20 });
    await fleet.until(run, "running");
    const asked = fleet.fleet.ask(run.id, generate(), limit);
    // The run's process never answers, the one that follows does.
    await Deno.writeTextFile(`${run.directory}/${PROCESS_CONFIG}`, "{}");
    await openGate(gate, 1);
    await fleet.until(run, "completed");
    assert.ok((await asked as Generated).token_ids.length > 0);
    const commands = (await Array.fromAsync(readEvents(run.eventsPath))).filter(({ kind }) =>
      kind === "command"
    );
    assert.equal(commands.length, 1);
  });
});

Deno.test("a process that dies or finds other files answers with what that means", strict, async () => {
  await withFleet(async (fleet) => {
    const done = async (scripted: { probe: "dies" | "changed" }) => {
      const run = await fleet.create({ updates: 1, ...scripted });
      await fleet.until(run, "completed");
      return run;
    };
    const dying = await done({ probe: "dies" });
    await assert.rejects(
      fleet.fleet.ask(dying.id, EVALUATE, limit),
      refused("internal", /process has ended/),
    );
    const other = await done({ probe: "changed" });
    await assert.rejects(
      fleet.fleet.ask(other.id, EVALUATE, limit),
      refused("conflict", /^Cannot evaluate the run: model.path changed since it trained/),
    );
    const lost = await done({} as { probe: "dies" });
    await Deno.remove(`${lost.directory}/adapter.gguf`);
    await assert.rejects(
      fleet.fleet.ask(lost.id, generate(), limit),
      refused(
        "conflict",
        /^Cannot generate the run: it does not load any more; the server's log has the reason$/,
      ),
    );
    await Deno.writeTextFile(`${lost.directory}/checkpoints/update_000001/adapter.gguf`, "x");
    await assert.rejects(
      fleet.fleet.ask(lost.id, generate({ checkpoint: "update_000001" }), limit),
      refused(
        "conflict",
        /^Cannot generate the run: it does not load any more; the server's log has the reason$/,
      ),
    );
    assert.ok(fleet.logged.some(({ message }) => /adapter.gguf has 1 bytes/.test(String(message))));
    assert.ok(fleet.fleet.device.hasSlot());
  });
});

Deno.test("a run that is deleted ends the process that is asked about it", strict, async () => {
  await withFleet(async (fleet) => {
    const run = await fleet.create({ updates: 1, hang: 20 });
    await fleet.until(run, "completed");
    await fleet.fleet.idle(run.id);
    const asked = assert.rejects(
      fleet.fleet.ask(run.id, generate(), limit),
      refused("conflict", /deleted/),
    );
    while (fleet.fleet.device.hasSlot()) await new Promise((resolve) => setTimeout(resolve));
    await fleet.fleet.delete(run.id);
    await asked;
    assert.ok(fleet.fleet.device.hasSlot());
  });
});

Deno.test("messages that do not fit are refused, and the run goes on", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const gate = `${folder}/gate`, run = await fleet.create({ gate });
    await fleet.until(run, "running");
    const say = (content: string) =>
      fleet.fleet.ask(run.id, generate({ messages: [{ role: "user", content }] }), limit);
    const fields = (error: unknown) => error instanceof ServiceError && error.details.field === "messages";
    await assert.rejects(say("x".repeat(MAX_COMMAND_BYTES)), fields);
    await assert.rejects(say("x".repeat(MAX_COMMAND_BYTES >> 4)), fields);
    await openGate(gate, 1, 2, 3);
    await fleet.until(run, "completed");
  });
});

Deno.test(
  "a damaged adapter or checkpoint answers nothing, and is named",
  strict,
  () =>
    withFleet(async (fleet) => {
      const run = await fleet.create();
      await fleet.until(run, "completed");
      await fleet.fleet.idle(run.id);
      const checkpoint = (await run.checkpoints()).at(-1)!,
        of_checkpoint = `checkpoints/${checkpoint}/adapter.gguf`;
      const asked = { "adapter.gguf": generate(), [of_checkpoint]: generate({ checkpoint }) };
      for (const [name, question] of Object.entries(asked)) {
        const path = `${run.directory}/${name}`, bytes = await Deno.readFile(path);
        await Deno.writeFile(path, bytes.with(-1, bytes.at(-1)! ^ 1));
        const wrong = refused("conflict", /does not load any more; the server's log has the reason/);
        await assert.rejects(fleet.fleet.ask(run.id, question, limit), wrong);
        assert.match(String(fleet.logged.pop()!.message), /adapter\.gguf.* SHA-256 differs/);
        await Deno.writeFile(path, bytes);
        await fleet.fleet.ask(run.id, question, limit);
      }
    }),
);
