/** The end of a server process with a live run, on signals. */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { serverConfig, ServerProcess } from "./server_process.ts";
import { shownEvents } from "./shown_events.ts";

const PROGRAM = "tests/scripted_server.ts";
const sanitize = { sanitizeOps: true, sanitizeResources: true };
const JSON_TYPE = { "content-type": "application/json" };

type Test = (start: () => Promise<ServerProcess>, root: string) => Promise<void>;

/** A server, whose runs are scripted if nothing else is said, and a folder with a model and data. */
async function withServer(test: Test, program = PROGRAM): Promise<void> {
  await withFolder(async (folder) => {
    const root = `${folder}/root`;
    await Deno.mkdir(root);
    await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), `${root}/model.gguf`);
    await Deno.writeTextFile(`${root}/rows.jsonl`, JSON.stringify({ text: "Once there was a cat." }));
    const config = await serverConfig(folder, `path_roots = [${JSON.stringify(root)}]`);
    await test(() => ServerProcess.start({ config, program }), root);
  });
}

/** Starts a run that trains until it is told to stop, and waits for its first update. */
async function startRun({ url }: ServerProcess, root: string): Promise<string> {
  const recipe = {
    ...{
      recipe: "sft",
      model: `${root}/model.gguf`,
      data: `${root}/rows.jsonl`,
      budget: { updates: 100_000 },
    },
    params: { "training.ctx": 64, "training.batch_tokens": 64 },
  };
  const body = JSON.stringify(recipe);
  const created = await fetch(`${url}/v1/runs`, { method: "POST", headers: JSON_TYPE, body });
  const run = await created.json();
  assert.equal(created.status, 201, JSON.stringify(run));
  // The metrics of an evaluation come before the first update.
  for await (const { kind } of shownEvents(`${url}/v1/runs/${run.id}/events`, 0)) {
    if (kind === "update") break;
  }
  return run.id;
}

for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"] as const) {
  Deno.test(
    `${signal} ends the server with status 0 and leaves a run interrupted with a checkpoint`,
    sanitize,
    () =>
      withServer(async (start, root) => {
        const first = await start(), run = await startRun(first, root);
        const created = await first.line(({ route, method }) => route === "/v1/runs" && method === "POST");
        assert.match(String(created.trace_id), /^[0-9a-f]{32}$/);
        assert.equal(await first.stop(signal), 0);
        assert.deepEqual(first.lines.filter(({ level }) => level === "error"), []);
        const of_server = first.lines.filter(({ message }) => message !== "request");
        assert.deepEqual(of_server.slice(1).map(({ message }) => message), [
          `svc-server stops: ${signal}`,
          "svc-server has stopped",
        ]);
        const second = await start(), url = `${second.url}/v1/runs/${run}`;
        const found = await (await fetch(url)).json();
        assert.deepEqual([found.state, found.error], ["interrupted", null]);
        const { checkpoints } = await (await fetch(`${url}/checkpoints`)).json();
        assert.equal(checkpoints[0].update, found.progress.update);
        assert.ok(checkpoints[0].update >= 1);
        const resumed = await fetch(`${url}/resume`, { method: "POST" });
        assert.equal(resumed.status, 202, await resumed.text());
        await second.stop();
      }),
  );
}

Deno.test(
  "a second signal ends the server at once, with status 130",
  sanitize,
  () =>
    withServer(async (start) => {
      const server = await start(), sending = Promise.withResolvers<void>();
      // An upload that never ends is waited for.
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode('{"text":"a"}\n')),
        pull: () => sending.resolve(),
      });
      const headers = { "content-type": "application/x-ndjson" };
      const upload = fetch(`${server.url}/v1/datasets`, { method: "POST", headers, body });
      const refused = assert.rejects(upload);
      await sending.promise;
      while (
        !(await (await fetch(`${server.url}/v1/metrics`)).text()).includes(
          'in_progress{route="/v1/datasets"} 1',
        )
      ) {
        // The upload is on its way.
      }
      server.child.kill("SIGTERM");
      await server.line(({ message }) => message === "svc-server stops: SIGTERM");
      assert.equal(await server.stop("SIGTERM"), 130);
      await refused;
      assert.match(String(server.lines.at(-1)!.message), /^Cannot stop in good order: a second signal came/);
    }),
);

gpuTest(
  "SIGTERM leaves a run that really trains interrupted, with a checkpoint of its last update",
  async () => {
    await withServer(async (start, root) => {
      const first = await start(), run = await startRun(first, root);
      assert.equal(await first.stop("SIGTERM"), 0);
      const second = await start(), url = `${second.url}/v1/runs/${run}`;
      const found = await (await fetch(url)).json();
      assert.deepEqual([found.state, found.error], ["interrupted", null]);
      const { checkpoints } = await (await fetch(`${url}/checkpoints`)).json();
      assert.equal(checkpoints[0].update, found.progress.update);
      await second.stop();
    }, "main.ts");
  },
);
