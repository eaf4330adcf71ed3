import assert from "node:assert/strict";
import { sha256OfFile } from "../../core/files.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { OpenAdapters } from "./open_adapters.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** An engine that logs which adapters are opened and closed, and files with adapters. */
async function openAdapters(folder: string, limit: number) {
  const log: string[] = [], names = new Map<string, string>();
  const { client } = new ScriptedEngine({
    refuse(method, request) {
      const { adapter, source } = request as { adapter: string; source?: { path?: string } };
      if (method === "adapter_open") names.set(adapter, source!.path!.replace(`${folder}/`, ""));
      if (source?.path || method === "adapter_close") log.push(`${method.slice(8)} ${names.get(adapter)}`);
    },
  });
  const source = { type: "init", lora: { rank: 8, alpha: 16, targets: [] }, seed: 0 } as const;
  for (const name of ["a", "b", "c"]) {
    await client.call("adapter_open", {
      adapter: name,
      source: { ...source, path: `${folder}/made` } as never,
    });
    await client.call("adapter_save", { adapter: name, path: `${folder}/${name}`, peft_dir: null });
    await client.call("adapter_close", { adapter: name });
  }
  log.length = 0;
  return { adapters: new OpenAdapters(client, limit), log };
}

Deno.test(
  "an adapter is opened once; of too many the one that was used longest ago is closed",
  strict,
  () =>
    withFolder(async (folder) => {
      const { adapters, log } = await openAdapters(folder, 2);
      const use = async (name: string | null, version = "1") => {
        const file = name === null ? null : { path: `${folder}/${name}`, version, checkpoint: null },
          used = [];
        for await (
          const adapter of adapters.use(file, async function* (adapter) {
            yield await Promise.resolve(adapter);
          })
        ) used.push(adapter);
        return used;
      };
      for (const name of ["a", "b", "a", null, "a"]) await use(name);
      assert.deepEqual(await use(null), [null]);
      assert.deepEqual(log, ["open a", "open b"]);
      await use("c");
      assert.deepEqual(log.splice(0), ["open a", "open b", "close b", "open c"]);
      await use("a");
      assert.deepEqual(log, []);
      await use("a", "2");
      assert.deepEqual(log.splice(0), ["close c", "open a"], "a file that changed is another adapter");
    }),
);

Deno.test(
  "an adapter in use stays open, and one that cannot be opened is tried again",
  strict,
  () =>
    withFolder(async (folder) => {
      const { adapters, log } = await openAdapters(folder, 2);
      const hold = (name: string) =>
        adapters.use({ path: `${folder}/${name}`, version: "", checkpoint: null }, async function* (adapter) {
          yield await Promise.resolve(adapter);
        });
      const a = hold("a"), b = hold("b"), c = hold("c");
      await a.next();
      await b.next();
      await b.return();
      await c.next();
      assert.deepEqual(log, ["open a", "open b", "close b", "open c"]);
      await c.return();
      for (let i = 0; i < 2; i++) await assert.rejects(hold("none").next());
      assert.deepEqual(log.slice(4), ["close c", "open none", "open none"]);
      await a.return();
    }),
);

Deno.test(
  "a damaged adapter is not served until it is repaired",
  strict,
  () =>
    withFolder(async (folder) => {
      const { adapters, log } = await openAdapters(folder, 2), path = `${folder}/a`;
      const bytes = await Deno.readFile(path), sha256 = await sha256OfFile(path);
      const artifact = { seq: 1, kind: "artifact", path, size_bytes: bytes.length, sha256 };
      await Deno.writeTextFile(`${folder}/events.jsonl`, `${JSON.stringify(artifact)}\n`);
      const use = () =>
        adapters.use({ path, version: "", checkpoint: null }, async function* (adapter) {
          yield await Promise.resolve(adapter);
        }).next();
      await Deno.writeFile(path, bytes.with(0, bytes[0]! ^ 1));
      await assert.rejects(use(), { code: "format_invalid", message: /\/a: it is damaged/ });
      assert.deepEqual(log, []);
      await Deno.writeFile(path, bytes);
      await use();
      assert.deepEqual(log, ["open a"]);
    }),
);
