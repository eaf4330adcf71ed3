/** A run whose file is lost before it starts loses nothing: it can be resumed when the file is back. */

import assert from "node:assert/strict";
import { type ErrorCode, ServiceError } from "../../core/errors.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { failedByLostFile } from "./changed_files.ts";
import { loggedEvents, openGate, type TestFleet, untilWaiting, withFleet } from "./fleet_testing.ts";
import type { ManagedRun } from "./managed_run.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const RESUME = { command: "resume" } as const;

const configOf = (model: string, rows: string) => `
run = { algorithm = "sft", directory = "." }
model.path = ${JSON.stringify(model)}
sft.data = ${JSON.stringify(rows)}
training = { ctx = 64, updates = 1 }
checkpoint.every_updates = 1`;

/** A run of a folder's rows waits in the queue until the gate's first update is open. */
async function queuedRun(
  fleet: TestFleet,
  folder: string,
): Promise<{ run: ManagedRun; rows: string; gate: string }> {
  const rows = `${folder}/rows.jsonl`, gate = `${folder}/gate`;
  const model = await Deno.realPath(await fixturePath("models/tiny-agent-f16.gguf"));
  await Deno.writeTextFile(rows, '{"text": "Once there was a cat."}');
  await fleet.create({ updates: 1, gate });
  await untilWaiting(gate, 1);
  const run = await fleet.create({}, { processConfig: () => configOf(model, rows) });
  assert.equal(run.record.state, "queued");
  return { run, rows, gate };
}

/** The ways in which a file is lost, and the reason that is logged. */
const LOSSES: Record<string, { lose: (path: string) => Promise<void>; reason: RegExp }> = {
  "is gone": {
    lose: (path) => Deno.rename(path, `${path}.moved`),
    reason: /there is no file .*rows\.jsonl$/,
  },
  "is behind a link": {
    async lose(path) {
      await Deno.rename(path, `${path}.moved`);
      await Deno.symlink(`${path}.moved`, path);
    },
    reason: /rows\.jsonl: it is a link to/,
  },
};

for (const [how, { lose, reason }] of Object.entries(LOSSES)) {
  Deno.test(
    `a queued run whose file ${how} is interrupted, and resumed when the file is back`,
    strict,
    () =>
      withFleet(async (fleet, folder) => {
        const { run, rows, gate } = await queuedRun(fleet, folder);
        await lose(rows);
        await openGate(gate, 1);
        await fleet.until(run, "interrupted", "failed");
        await fleet.fleet.idle(run.id);
        const [warning, last] = (await loggedEvents(run)).slice(-2);
        assert.ok(warning?.kind === "log" && reason.test(warning.message), JSON.stringify(warning));
        assert.deepEqual([last?.kind, run.record.error], ["state", null]);

        const { last_seq } = run;
        await assert.rejects(fleet.fleet.command(run.id, RESUME), (error) => {
          assert.ok(error instanceof ServiceError && error.code === "conflict");
          assert.match(error.message, /^Cannot resume the run: a file that it names is gone/);
          return !error.message.includes(folder);
        });
        assert.deepEqual([run.record.state, run.last_seq], ["interrupted", last_seq]);
        assert.match(String(fleet.logged.at(-1)!.message), reason);

        await Deno.rename(`${rows}.moved`, rows);
        assert.equal(await fleet.fleet.command(run.id, RESUME), "now");
        await fleet.until(run, "completed");
      }, { max_queued: 1 }),
  );
}

Deno.test(
  "only a file that a client named and that is gone is a lost one",
  strict,
  () =>
    withFolder(async (directory) => {
      const model = `${directory}/model.gguf`, rows = `${directory}/rows.jsonl`;
      await Deno.writeTextFile(`${directory}/run.toml`, configOf(model, rows));
      await Promise.all([model, rows].map((path) => Deno.writeTextFile(path, "")));
      const failure = (code: ErrorCode) => failedByLostFile({ directory }, { code, details: {} });
      // Such as a log that cannot be written.
      assert.equal(await failure("path_not_found"), false);
      await Deno.remove(model);
      assert.deepEqual([await failure("path_not_found"), await failure("data_invalid")], [true, false]);
    }),
);
