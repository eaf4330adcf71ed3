/** One server for a data directory. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { withFolder } from "./folder.ts";
import { serverConfig, ServerProcess } from "./server_process.ts";

const PROGRAM = "tests/scripted_server.ts";
const sanitize = { sanitizeOps: true, sanitizeResources: true };

Deno.test(
  "a second server on a data directory ends with a message, until the first one is gone",
  sanitize,
  () =>
    withFolder(async (folder) => {
      const config = await serverConfig(folder), data = `${folder}/svc-data`;
      const first = await ServerProcess.start({ config, program: PROGRAM });
      const second = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", fileURLToPath(new URL("../main.ts", import.meta.url)), config],
      }).output();
      assert.deepEqual([second.code, new TextDecoder().decode(second.stderr).trim()], [
        2,
        `svc-server: Cannot use ${data}: another process is working in it; wait for it, or name another data_dir`,
      ]);
      const health = await fetch(`${first.url}/v1/health`);
      assert.equal((await health.json()).status, "ok");
      // The system frees the lock, however the process ends.
      await first.stop("SIGKILL");
      const third = await ServerProcess.start({ config, program: PROGRAM });
      assert.equal(await third.stop(), 0);
    }),
);
