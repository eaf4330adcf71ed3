/** Downloads of artefacts over a real socket. */

import assert from "node:assert/strict";
import { parseServerConfig } from "../../config/server/load.ts";
import { withFolder } from "../../tests/folder.ts";
import { listen } from "./listen.ts";
import { runsOf, storedRun } from "../runs_testing.ts";

const TOKEN = "canary-token";

Deno.test("a download over HTTP has ranges, lengths and links, and is cut off when its file is replaced", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "run_A"), path = `${run.directory}/adapter.gguf`;
    await Deno.mkdir(run.directory!, { recursive: true });
    // More than the buffers of two sockets hold.
    await Deno.writeFile(path, new Uint8Array(32 << 20).fill(7));
    const logged: Record<string, unknown>[] = [];
    const server = await listen(
      parseServerConfig(`bind = "127.0.0.1:0"\nauth_token = "${TOKEN}"`, { path: "s.toml" }),
      {
        probeDevices: () => Promise.resolve([]),
        log: (line) => logged.push(line),
        runs: runsOf(run),
      },
    );
    try {
      const url = `http://${server.address}/v1/runs/run_A/artifacts/adapter`;
      const headers = { authorization: `Bearer ${TOKEN}` };
      const head = await fetch(url, { method: "HEAD", headers });
      assert.deepEqual([head.status, head.headers.get("content-length")], [200, String(32 << 20)]);
      await head.body?.cancel();
      const part = await fetch(url, { headers: { ...headers, range: "bytes=5-14" } });
      assert.deepEqual([part.status, await part.bytes()], [206, new Uint8Array(10).fill(7)]);
      const { url: link } = await (await fetch(`${url}/link`, { method: "POST", headers })).json();
      const whole = await fetch(`http://${server.address}${link}`);
      assert.equal((await whole.bytes()).length, 32 << 20);
      assert.equal(logged.length, 0);
      const cut = await fetch(url, { headers });
      await Deno.truncate(path, 100);
      await assert.rejects(cut.bytes());
      assert.match(String(logged[0]!.message), /it was replaced meanwhile/);
      assert.ok(!JSON.stringify(logged).includes(TOKEN));
    } finally {
      await server.close();
    }
  });
});
