import assert from "node:assert/strict";
import { startThread, threadGone } from "./worker_thread.ts";

const LINUX = Deno.build.os === "linux";

/** Echoes every message, and closes at `close`. */
const ECHO = `data:text/javascript,${
  encodeURIComponent(
    `self.onmessage = ({ data }) => data === "close" ? self.close() : self.postMessage(data);`,
  )
}`;

const start = () => startThread(() => new Worker(ECHO, { type: "module" }));

async function echo(worker: Worker, text: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  worker.onmessage = ({ data }) => resolve(data);
  worker.postMessage(text);
  return await promise;
}

/** The names of this process's threads, as another program sees them. */
async function threads(): Promise<string[]> {
  const { stdout } = await new Deno.Command("sh", { args: ["-c", `cat /proc/${Deno.pid}/task/*/comm`] })
    .output();
  return new TextDecoder().decode(stdout).split("\n");
}

Deno.test({
  name: `a worker's thread is known, and gone once it has closed${LINUX ? "" : " (skipped: needs Linux)"}`,
  ignore: !LINUX,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const first = start(), second = start();
    assert.notEqual(first.thread, second.thread);
    assert.equal(await threadGone(first.thread, 0), false, "it runs");
    first.worker.postMessage("close");
    assert.equal(await threadGone(first.thread, 60_000), true);
    assert.ok(!(await threads()).includes(first.thread!));
    assert.equal(await echo(second.worker, "still here"), "still here");
    assert.ok((await threads()).includes(second.thread!));
    second.worker.postMessage("close");
    assert.equal(await threadGone(second.thread, 60_000), true);
  },
});

Deno.test("an unknown thread is not waited for", async () => {
  assert.equal(await threadGone(null, 0), true);
});
