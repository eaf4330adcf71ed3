import assert from "node:assert/strict";
import { type DeviceClaim, deviceOwner } from "../../core/device_lock.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { adapterOf, recordOf, startTestRun as start } from "../../tests/test_run.ts";
import { eventsOf, MORE, ofKind, testPipe, vowels } from "../run_fake.ts";
import type { ControlMessage } from "./control.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** Starts a run that gets `commands` during the training of its n-th update. */
async function commanded(
  root: string,
  { commands, update = 2, more = MORE }: { commands: object[]; update?: number; more?: string },
) {
  const pipe = testPipe();
  let steps = 0;
  const run = await start({
    root,
    more,
    start: { control: pipe.port },
    refuse: (method) => {
      if (method === "train_step" && ++steps === update) commands.forEach(pipe.send);
    },
  });
  const events = await eventsOf(run);
  return { events, ended: await run.ended, sent: pipe.sent };
}

const answers = (sent: ControlMessage[], id: number) =>
  sent.filter((message): message is Exclude<ControlMessage, { durable_seq: number }> =>
    "id" in message && message.id === id
  );

Deno.test(
  "pause finishes the update, writes a checkpoint and ends; resume continues to the same adapter",
  strict,
  async () => {
    await withFolder(async (root) => {
      const whole = `${root}/whole`, parts = `${root}/parts`;
      await (await start({ root: whole })).ended;
      const { events, ended, sent } = await commanded(parts, { commands: [{ id: 1, command: "pause" }] });
      assert.equal(ended, "paused");
      assert.deepEqual(answers(sent, 1), [{ id: 1, accepted: true, takes_effect: "boundary" }]);
      assert.deepEqual(ofKind(events, "state").map(({ state }) => state), [
        "starting",
        "running",
        "pausing",
        "paused",
      ]);
      assert.deepEqual(ofKind(events, "update").map(({ update }) => update), [1, 2]);
      assert.equal((await recordOf(parts)).state, "paused");
      await assert.rejects(adapterOf(parts), Deno.errors.NotFound);
      const resumed = await start({ root: parts, start: { mode: "resume" } });
      assert.equal(await resumed.ended, "completed");
      assert.equal(await adapterOf(parts), await adapterOf(whole));
    });
  },
);

Deno.test("pause writes a checkpoint even if none is configured", strict, async () => {
  await withFolder(async (root) => {
    const { ended } = await commanded(root, { commands: [{ id: 1, command: "pause" }], more: "" });
    assert.equal(ended, "paused");
    const names = (await Array.fromAsync(Deno.readDir(`${root}/runs/test/checkpoints`))).map(({ name }) =>
      name
    );
    assert.deepEqual(names, ["update_000002"]);
    const resumed = await start({ root, more: "", start: { mode: "resume" } });
    const events = await eventsOf(resumed);
    assert.deepEqual(ofKind(events, "update").map(({ update }) => update), [3]);
  });
});

Deno.test("every durable event is reported over the pipe", strict, async () => {
  await withFolder(async (root) => {
    const { events, sent } = await commanded(root, { commands: [] });
    const durable = sent.flatMap((message) => "durable_seq" in message ? [message.durable_seq] : []);
    assert.deepEqual(durable, durable.toSorted((a, b) => a - b));
    assert.equal(durable.at(-1), events.at(-1)!.seq);
  });
});

Deno.test(
  "cancel at the boundary ends after the update, with a checkpoint on request",
  strict,
  async () => {
    await withFolder(async (root) => {
      for (const checkpoint of [false, true]) {
        const at = `${root}/${checkpoint}`;
        const { events, ended } = await commanded(at, {
          commands: [{ id: 1, command: "cancel", at: "boundary", checkpoint }],
          more: "",
        });
        assert.equal(ended, "cancelled");
        assert.deepEqual(ofKind(events, "state").slice(2).map(({ state }) => state), [
          "stopping",
          "cancelled",
        ]);
        assert.equal(ofKind(events, "update").length, 2);
        assert.equal(ofKind(events, "checkpoint").length, checkpoint ? 1 : 0);
        await assert.rejects(start({ root: at, more: "", start: { mode: "resume" } }), /it was cancelled/);
      }
    });
  },
);

Deno.test("cancel now discards the running rollouts", strict, async () => {
  await withFolder(async (root) => {
    const pipe = testPipe();
    let verified = 0;
    const run = await start({
      root,
      more: "",
      start: { control: pipe.port },
      verify: (_, said) => {
        if (++verified === 10) pipe.send({ id: 1, command: "cancel", at: "now", checkpoint: true });
        // The third episode of the second update does not end by itself.
        return verified > 10 ? new Promise(() => {}) : vowels(said);
      },
    });
    const events = await eventsOf(run);
    assert.equal(await run.ended, "cancelled");
    assert.deepEqual(answers(pipe.sent, 1), [{ id: 1, accepted: true, takes_effect: "now" }]);
    assert.deepEqual(ofKind(events, "update").map(({ update }) => update), [1]);
    assert.deepEqual(ofKind(events, "checkpoint").map(({ name }) => name), ["update_000001"]);
  });
});

Deno.test("lr takes effect at the next update, and is an event", strict, async () => {
  await withFolder(async (root) => {
    const { events, ended } = await commanded(root, { commands: [{ id: 1, command: "set_lr", lr: 0.5 }] });
    assert.equal(ended, "completed");
    const rates = ofKind(events, "metrics").flatMap(({ values }) => values["optimizer/learning_rate"] ?? []);
    assert.deepEqual(rates, [0.01, 0.01, 0.5]);
    assert.deepEqual(ofKind(events, "command").map(({ command, arguments: given }) => [command, given]), [
      ["set_lr", { lr: 0.5 }],
    ]);
  });
});

Deno.test(
  "a checkpoint is written on request, or refused if none is configured",
  strict,
  async () => {
    await withFolder(async (root) => {
      const commands = [{ id: 1, command: "checkpoint" }];
      const rare = MORE.replace("every_updates = 1", "every_updates = 50");
      const { events } = await commanded(`${root}/a`, { commands, more: rare });
      assert.deepEqual(ofKind(events, "checkpoint").map(({ update }) => update).includes(2), true);
      const { sent } = await commanded(`${root}/b`, { commands, more: "" });
      const [answer] = answers(sent, 1);
      assert.ok(
        answer && "accepted" in answer && !answer.accepted && /\[checkpoint\]/.test(answer.error.message),
      );
    });
  },
);

Deno.test("requests are answered while the run trains, and change none of its bytes", strict, async () => {
  await withFolder(async (root) => {
    await (await start({ root: `${root}/quiet` })).ended;
    const generate = {
      command: "generate",
      messages: [{ role: "user", content: "abc" }],
      max_new_tokens: 30,
      seed: 5,
    };
    const { sent, ended } = await commanded(`${root}/asked`, {
      update: 1,
      commands: [
        { id: 1, command: "evaluate", limit: 2 },
        { id: 2, ...generate },
        { id: 3, ...generate, adapter: false },
        { id: 4, ...generate },
        { id: 5, ...generate, checkpoint: "update_000009" },
      ],
    });
    assert.equal(ended, "completed");
    const result = (id: number) => (answers(sent, id)[1] as { result: Record<string, unknown> }).result;
    assert.equal((result(1).scenarios as unknown[]).length, 2);
    assert.ok((result(2).token_ids as number[]).length > 0);
    assert.deepEqual(result(2), result(4));
    assert.match(
      (answers(sent, 5)[1] as { error: { message: string } }).error.message,
      /no checkpoint update_000009/,
    );
    assert.equal(await adapterOf(`${root}/asked`), await adapterOf(`${root}/quiet`));
  });
});

Deno.test(
  "an interrupt finishes the update and writes a checkpoint if one is configured",
  strict,
  async () => {
    await withFolder(async (root) => {
      let steps = 0;
      for (const more of [MORE.replace("every_updates = 1", "every_updates = 50"), ""]) {
        const at = `${root}/${more.length}`;
        steps = 0;
        const stop = Promise.withResolvers<() => void>();
        const run = await start({
          root: at,
          more,
          refuse: (method) => {
            if (method === "train_step" && ++steps === 2) stop.promise.then((stopNow) => stopNow());
          },
        });
        stop.resolve(run.stop);
        const events = await eventsOf(run);
        assert.equal(await run.ended, "interrupted");
        assert.deepEqual(ofKind(events, "update").map(({ update }) => update), [1, 2]);
        assert.equal(ofKind(events, "checkpoint").at(-1)?.name, more ? "update_000002" : undefined);
        const resumed = await start({ root: at, more, start: { mode: "resume" } });
        assert.equal(await resumed.ended, "completed");
      }
    });
  },
);

Deno.test("a run whose control pipe ends stops at the next boundary", strict, async () => {
  await withFolder(async (root) => {
    const pipe = testPipe();
    const run = await start({
      root,
      start: { control: pipe.port },
      refuse: (method) => {
        if (method === "train_step") pipe.end();
      },
    });
    const events = await eventsOf(run);
    assert.equal(await run.ended, "interrupted");
    assert.deepEqual(ofKind(events, "update").map(({ update }) => update), [1]);
    assert.match(ofKind(events, "log")[0]!.message, /control pipe ended/);
  });
});

Deno.test(
  "a resumed run does not rewrite its checkpoint, unless the learning rate changed",
  strict,
  async () => {
    await withFolder(async (root) => {
      await commanded(root, { commands: [{ id: 1, command: "pause" }] });
      const resumed = await start({ root, start: { mode: "resume" } });
      const events = await eventsOf(resumed);
      assert.deepEqual(ofKind(events, "checkpoint").map(({ update }) => update), [3]);
      const other = `${root}/other`;
      const { events: changed } = await commanded(other, {
        commands: [{ id: 1, command: "set_lr", lr: 0.5 }, { id: 2, command: "pause" }],
      });
      assert.deepEqual(ofKind(changed, "checkpoint").map(({ update }) => update), [1, 2, 2]);
      const after = await eventsOf(await start({ root: other, start: { mode: "resume" } }));
      assert.deepEqual(
        ofKind(after, "metrics").flatMap(({ values }) => values["optimizer/learning_rate"] ?? []),
        [0.5],
      );
    });
  },
);

const refusalOf = (sent: ControlMessage[], id: number) => {
  const [answer] = answers(sent, id);
  return answer && "accepted" in answer && !answer.accepted ? answer.error.message : null;
};

Deno.test("a cancel overrides a pause; after a cancel nothing but a cancel is accepted", strict, async () => {
  await withFolder(async (root) => {
    const pause = { command: "pause" }, cancel = { command: "cancel" };
    const { events, ended, sent } = await commanded(`${root}/a`, {
      commands: [{ id: 1, ...pause }, { id: 2, ...pause }, { id: 3, ...cancel }],
      more: "",
    });
    assert.equal(ended, "cancelled");
    assert.deepEqual([1, 2, 3].map((id) => refusalOf(sent, id)), [
      null,
      "Cannot pause: the run is pausing",
      null,
    ]);
    const states = ofKind(events, "state").slice(2).map(({ state }) => state);
    assert.deepEqual(states, ["pausing", "stopping", "cancelled"]);
    assert.deepEqual(ofKind(events, "checkpoint"), []);
    const other = await commanded(`${root}/b`, {
      commands: [
        { id: 1, ...cancel },
        { id: 2, ...pause },
        { id: 3, command: "evaluate" },
        { id: 4, command: "checkpoint" },
        { id: 5, ...cancel, checkpoint: true },
      ],
    });
    assert.equal(other.ended, "cancelled");
    for (const id of [2, 3, 4]) assert.match(refusalOf(other.sent, id)!, /the run is stopping/);
    for (const id of [1, 5]) assert.equal(refusalOf(other.sent, id), null);
    assert.equal(ofKind(other.events, "checkpoint").at(-1)!.update, 2);
  });
});

Deno.test(
  "a cancel that comes while the pause's checkpoint is written overrides it, too",
  strict,
  async () => {
    await withFolder(async (root) => {
      const pipe = testPipe();
      const run = await start({
        root,
        more: "",
        start: { control: pipe.port },
        refuse: (method) => {
          if (method === "train_step") pipe.send({ id: 1, command: "pause" });
          if (method === "checkpoint_save") pipe.send({ id: 2, command: "cancel" });
        },
      });
      const events = await eventsOf(run);
      assert.equal(await run.ended, "cancelled");
      assert.equal(events.at(-1)!.kind, "end");
    });
  },
);

Deno.test("a pause outlives a lost device", strict, async () => {
  await withFolder(async (root) => {
    const pipe = testPipe();
    const run = await start({
      root,
      more: "",
      start: { control: pipe.port },
      refuse: (method, _, engine) => {
        if (method === "train_step") pipe.send({ id: 1, command: "pause" });
        if (method === "checkpoint_save" && engine === 1) {
          throw new ServiceError("device_lost", "Cannot save: the device is lost");
        }
      },
    });
    await eventsOf(run);
    assert.equal(await run.ended, "paused");
  });
});

Deno.test("commands after the last boundary are refused, and the run ends normally", strict, async () => {
  await withFolder(async (root) => {
    const pipe = testPipe();
    const run = await start({
      root,
      start: { control: pipe.port },
      refuse: (method, request) => {
        if (method !== "adapter_save" || !(request as { path: string }).path.endsWith("r.gguf")) return;
        ["pause", "cancel", "set_lr", "checkpoint", "evaluate"].forEach((command, id) =>
          pipe.send({ id, command, ...(command === "set_lr" && { lr: 1 }) })
        );
      },
    });
    const events = await eventsOf(run);
    assert.equal(await run.ended, "completed");
    assert.equal(events.at(-1)!.kind, "end");
    assert.equal((await recordOf(root)).state, "completed");
    for (const id of [0, 1, 2, 3, 4]) assert.match(refusalOf(pipe.sent, id)!, /the run is ending/);
  });
});

Deno.test(
  "a run claims its device by its id, and one that another process has leaves nothing",
  strict,
  () =>
    withFolder(async (root) => {
      const claims: DeviceClaim[] = [];
      const takenBy = (message: string | null) => (method: string, request: unknown) => {
        if (method !== "load") return;
        claims.push((request as { claim: DeviceClaim }).claim);
        if (message !== null) throw new ServiceError("device_unavailable", message);
      };
      const refused = start({ root, refuse: takenBy("Cannot use GPU: the process 7 has it") });
      await assert.rejects(refused, { code: "device_unavailable", message: /the process 7 has it/ });
      assert.deepEqual(await Array.fromAsync(Deno.readDir(root)), []);
      const run = await start({ root, refuse: takenBy(null) });
      await run.ended;
      const [, { use, run: id, pid, owner }] = claims as [DeviceClaim, DeviceClaim];
      assert.deepEqual([use, id, pid, owner], ["run", (await recordOf(root)).id, Deno.pid, deviceOwner()]);
    }),
);
