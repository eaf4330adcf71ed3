import assert from "node:assert/strict";
import { join } from "node:path";
import { withFolder } from "../../tests/folder.ts";
import { JudgeCache, MAX_LINE_BYTES } from "./judge_cache.ts";

const key = (n: number) => n.toString(16).padStart(64, "0");

async function opened(path: string): Promise<JudgeCache> {
  const cache = new JudgeCache(path);
  await cache.start();
  return cache;
}

Deno.test("a value is found again, in this process and the next", () =>
  withFolder(async (root) => {
    const path = join(root, "judgements.jsonl");
    const first = await opened(path);
    assert.equal(await first.get(key(1)), null);
    await Promise.all([1, 2, 3].map((n) => first.put(key(n), { n, text: "ü\n\u2028" })));
    assert.deepEqual(await first.get(key(2)), { n: 2, text: "ü\n\u2028" });
    first.close();
    const second = await opened(path);
    for (const n of [1, 2, 3]) assert.deepEqual(await second.get(key(n)), { n, text: "ü\n\u2028" });
    assert.equal(await second.get(key(4)), null);
    second.close();
  }));

Deno.test("a file that was cut at any byte keeps its whole lines, and takes new ones", () =>
  withFolder(async (root) => {
    const path = join(root, "judgements.jsonl");
    const first = await opened(path);
    for (const n of [1, 2]) await first.put(key(n), { n });
    first.close();
    const bytes = await Deno.readFile(path), one = bytes.indexOf(10) + 1;
    for (let cut = 0; cut <= bytes.length; cut += 7) {
      await Deno.writeFile(path, bytes.subarray(0, cut));
      const cache = await opened(path);
      assert.deepEqual(await cache.get(key(1)), cut >= one ? { n: 1 } : null, `${cut}`);
      await cache.put(key(3), { n: 3 });
      cache.close();
      const again = await opened(path);
      assert.deepEqual(await again.get(key(3)), { n: 3 }, `${cut}`);
      assert.deepEqual(await again.get(key(1)), cut >= one ? { n: 1 } : null, `${cut}`);
      again.close();
    }
  }));

Deno.test("damaged and foreign lines are passed over, and of two with one key the later counts", () =>
  withFolder(async (root) => {
    const path = join(root, "judgements.jsonl"),
      line = (n: number, value: string) => `{"key":"${key(n)}","value":${value}}`;
    const lines = [
      "",
      "no JSON",
      line(1, "{broken"),
      line(2, "1"),
      line(2, "2"),
      line(3, `"${"x".repeat(500_000)}"`),
    ];
    await Deno.writeTextFile(path, `${lines.join("\n")}\n`);
    const cache = await opened(path);
    assert.deepEqual([await cache.get(key(1)), await cache.get(key(2))], [null, 2]);
    assert.equal((await cache.get(key(3)) as string).length, 500_000);
    cache.close();
  }));

Deno.test("a line has at most MAX_LINE_BYTES", () =>
  withFolder(async (root) => {
    const path = join(root, "judgements.jsonl"), head = (n: number) => `{"key":"${key(n)}","value":"`;
    const line = (n: number, bytes: number) => `${head(n).padEnd(bytes - 2, "x")}"}\n`;
    await Deno.writeTextFile(path, line(1, MAX_LINE_BYTES) + line(2, MAX_LINE_BYTES + 1) + line(3, 200));
    const cache = await opened(path);
    assert.equal((await cache.get(key(1)) as string).length, MAX_LINE_BYTES - head(1).length - 2);
    assert.equal(await cache.get(key(2)), null);
    assert.ok(await cache.get(key(3)));
    cache.close();
  }));

Deno.test("two processes may add to one file", () =>
  withFolder(async (root) => {
    const path = join(root, "judgements.jsonl"), a = await opened(path), b = await opened(path);
    for (let n = 0; n < 20; n++) await (n % 2 ? a : b).put(key(n), n);
    for (let n = 0; n < 20; n++) assert.equal(await (n % 2 ? a : b).get(key(n)), n);
    a.close();
    b.close();
    const all = await opened(path);
    for (let n = 0; n < 20; n++) assert.equal(await all.get(key(n)), n);
    all.close();
  }));

Deno.test("a file that cannot be kept is refused with its path", () =>
  withFolder(async (root) => {
    await assert.rejects(opened(join(root, "none", "x.jsonl")), {
      code: "config_invalid",
      message: /its folder does not exist; make it, or change agent\.judge\.cache_path$/,
    });
    await assert.rejects(opened(root), { message: /^Cannot keep judgements in / });
  }));
