import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { withFolder } from "../../tests/folder.ts";
import { checkAdapter } from "./checked_adapter.ts";
import { initialState, saveCheckpoint } from "./checkpoint.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** Every bit of some bytes flipped, and every length cut. */
function* damages(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at++) {
    yield bytes.with(at, bytes[at]! ^ 1 << (at % 8));
    yield bytes.subarray(0, at);
  }
}

async function assertChecked(path: string): Promise<void> {
  const whole = await Deno.readFile(path);
  await checkAdapter(path);
  for (const damaged of damages(whole)) {
    await Deno.writeFile(path, damaged);
    const reason = damaged.length < whole.length ? "bytes instead of" : "SHA-256 differs";
    await assert.rejects(checkAdapter(path), (error: Error & { code: string }) => {
      assert.equal(error.code, "format_invalid");
      assert.ok(error.message.includes(path) && error.message.includes(reason), error.message);
      return true;
    });
  }
  await Deno.remove(path);
  await assert.rejects(checkAdapter(path), { code: "format_invalid", message: /is missing/ });
}

Deno.test(
  "the adapter of a checkpoint is used only as it was written",
  strict,
  () =>
    withFolder(async (root) => {
      const config = { run: "run_1", created_at: "", config_hash: "", config: {}, metrics: {} };
      const { directory } = await saveCheckpoint({
        root,
        record: { ...config, state: { ...initialState(), update: 1 } },
        write: (folder) => Deno.writeTextFile(`${folder}/adapter.gguf`, "the adapter"),
      });
      await assertChecked(`${directory}/adapter.gguf`);
      await Deno.writeTextFile(`${directory}/adapter.gguf`, "the adapter");
      await Deno.truncate(`${directory}/state.json`, 100);
      await assert.rejects(checkAdapter(`${directory}/adapter.gguf`), /state\.json is damaged/);
    }),
);

Deno.test(
  "the adapter of a completed run is used only as its log says",
  strict,
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/adapter.gguf`, text = "the adapter";
      await Deno.writeTextFile(path, text);
      const artifact = (name: string, content: string) => ({
        ...{ kind: "artifact", path: `/before/the/move/${name}`, size_bytes: content.length },
        sha256: createHash("sha256").update(content).digest("hex"),
      });
      const events = [
        artifact("adapter.gguf", "of an earlier update"),
        { kind: "update", update: 2 },
        artifact("adapter.gguf", text),
        artifact("adapter_best.gguf", "another one"),
        { kind: "end" },
      ];
      const lines = events.map((event, i) => `${JSON.stringify({ seq: i + 1, ...event })}\n`);
      await Deno.writeTextFile(`${folder}/events.jsonl`, lines.join(""));
      await assertChecked(path);
    }),
);

Deno.test("a file of which nothing is recorded passes", strict, () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/adapter.gguf`, "from elsewhere");
    await checkAdapter(`${folder}/adapter.gguf`);
  }));
