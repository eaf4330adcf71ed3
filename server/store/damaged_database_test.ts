import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { damageWal } from "./damage_testing.ts";

Deno.test({
  name: "after damage anywhere in the write-ahead log the server shows what the logs of its runs tell",
  sanitizeOps: true,
  sanitizeResources: true,
  fn: () =>
    withFolder(async (folder) => {
      const { different, lines, wal_bytes } = await damageWal(folder, { positions: 60, seed: 3 });
      assert.deepEqual(different, []);
      assert.ok(
        lines > 20 && wal_bytes.every((bytes) => bytes > 10_000),
        `${lines} lines, ${wal_bytes} bytes`,
      );
    }),
});
