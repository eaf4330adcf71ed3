/** What a server keeps of runs, uploads and followers that are gone: no file and no process. */

import assert from "node:assert/strict";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { serverConfig, ServerProcess } from "./server_process.ts";
import { shownEvents } from "./shown_events.ts";

const IS_LINUX = Deno.build.os === "linux";
const PATIENCE_MS = 10_000, POLL_MS = 50;

async function api(url: string, method = "GET", [type, body]: [string, string] | [] = []) {
  const headers = type === undefined ? {} : { "content-type": type };
  const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body }) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${url}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}

/** A run from its creation to its deletion, with a follower, and a dataset likewise. */
async function liveOnce(url: string, recipe: object): Promise<void> {
  const { id } = await api(`${url}/v1/runs`, "POST", ["application/json", JSON.stringify(recipe)]);
  const kinds: string[] = [];
  for await (const { kind } of shownEvents(`${url}/v1/runs/${id}/events`, 0)) kinds.push(kind);
  assert.equal(kinds.at(-1), "end");
  const dataset = await api(`${url}/v1/datasets`, "POST", ["application/x-ndjson", '{"text":"a"}\n']);
  await api(`${url}/v1/datasets/${dataset.id}/preview`);
  await api(`${url}/v1/datasets/${dataset.id}`, "DELETE");
  await api(`${url}/v1/runs/${id}`, "DELETE");
}

/** Open files without sockets, which the client's connections are, and child processes. */
function held(pid: number): { files: number; processes: number } {
  const files = [...Deno.readDirSync(`/proc/${pid}/fd`)].filter(({ name }) => {
    try {
      return !Deno.readLinkSync(`/proc/${pid}/fd/${name}`).startsWith("socket:");
    } catch {
      return false;
    }
  });
  const children = [...Deno.readDirSync(`/proc/${pid}/task`)].map(({ name }) =>
    Deno.readTextFileSync(`/proc/${pid}/task/${name}/children`).split(" ").length - 1
  );
  return { files: files.length, processes: children.reduce((sum, count) => sum + count, 0) };
}

Deno.test({
  name: `a server keeps no file and no process of runs, uploads and followers that are gone${
    IS_LINUX ? "" : " (skipped: needs /proc)"
  }`,
  ignore: !IS_LINUX,
  sanitizeOps: true,
  sanitizeResources: true,
  fn: () =>
    withFolder(async (folder) => {
      const root = `${folder}/root`, model = `${root}/model.gguf`, data = `${root}/rows.jsonl`;
      await Deno.mkdir(root);
      await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), model);
      await Deno.writeTextFile(data, '{"text":"Once there was a cat."}');
      const config = await serverConfig(
        folder,
        `path_roots = [${JSON.stringify(root)}]\nmax_queued_runs = 1\n`,
      );
      const server = await ServerProcess.start({ config, program: "tests/scripted_server.ts" });
      const recipe = { recipe: "sft", model, data, budget: { updates: 2 }, params: { "training.ctx": 64 } };
      try {
        // Processes of jobs wait for more work.
        await liveOnce(server.url, recipe);
        const before = held(server.child.pid);
        for (let i = 0; i < 2; i++) await liveOnce(server.url, recipe);
        let after = held(server.child.pid);
        for (let waited = 0; waited < PATIENCE_MS; waited += POLL_MS) {
          after = held(server.child.pid);
          if (after.files <= before.files && after.processes <= before.processes) break;
          // A process that leaves takes a moment.
          await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        }
        assert.ok(after.files <= before.files, `open files: ${before.files}, then ${after.files}`);
        assert.ok(
          after.processes <= before.processes,
          `processes: ${before.processes}, then ${after.processes}`,
        );
      } finally {
        await server.stop();
      }
    }),
});
