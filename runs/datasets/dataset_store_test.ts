import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { checkDataset } from "./check_dataset.ts";
import { DatasetStore, type DatasetStoreOptions, isDatasetId, type Upload } from "./dataset_store.ts";

const ROW = '{"text":"a"}\n';

function storeIn(folder: string, more: Partial<DatasetStoreOptions> = {}) {
  return new DatasetStore({
    folder: `${folder}/datasets`,
    clock: new ManualClock(),
    check: (request) => checkDataset(request),
    ...more,
  });
}

function uploadOf(text: string | Uint8Array<ArrayBuffer>, more: Partial<Upload> = {}): Upload {
  return { stream: new Blob([text]).stream(), kind: "auto", signal: new AbortController().signal, ...more };
}

/** Names in the folder of datasets. */
async function names(folder: string): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(`${folder}/datasets`));
  return entries.map(({ name }) => name).sort();
}

Deno.test("a stored dataset has its bytes and its card, also after a restart", () =>
  withFolder(async (folder) => {
    const store = storeIn(folder);
    assert.deepEqual(await store.list(), []);
    const { card, is_new } = await store.create(uploadOf(ROW, { name: "mine" }));
    assert.equal(is_new, true);
    assert.ok(isDatasetId(card.id), card.id);
    assert.deepEqual(card, {
      id: card.id,
      name: "mine",
      kind: "sft",
      rows: 1,
      invalid_rows: 0,
      size_bytes: 13,
      sha256: createHash("sha256").update(ROW).digest("hex"),
      fields: ["text"],
      problems: [],
      created_at: "2026-01-01T00:00:00.000Z",
    });
    assert.equal(await Deno.readTextFile(store.pathOf(card)), ROW);
    const again = storeIn(folder);
    assert.deepEqual(await again.list(), [card]);
    assert.deepEqual(await again.get(card.id), card);
    assert.deepEqual(await again.startOf(card, 5), { line: 1, offset: 0 });
    assert.deepEqual([await again.hasLine(card, 1), await again.hasLine(card, 2)], [true, false]);
    await Deno.writeTextFile(
      store.pathOf(card).replace("data.jsonl", "lines.json"),
      '[{"line":1,"offset":0}]',
    );
    assert.ok(await again.hasLine(card, 2), "a list of places does not tell the last line");
    assert.deepEqual(await again.startOf(card, 5), { line: 1, offset: 0 });
    assert.equal(await again.get("ds_x"), null);
    assert.equal(await again.get("__proto__"), null);
  }));

Deno.test("equal bytes are stored once, whatever their name, and not as another kind", () =>
  withFolder(async (folder) => {
    const store = storeIn(folder);
    const [one, two] = await Promise.all([store.create(uploadOf(ROW)), store.create(uploadOf(ROW))]);
    assert.deepEqual(one.card, two.card);
    assert.deepEqual([one.is_new, two.is_new].sort(), [false, true]);
    const third = await store.create(uploadOf(ROW, { name: "other", kind: "sft" }));
    assert.deepEqual(third, { card: one.card, is_new: false });
    await assert.rejects(store.create(uploadOf(ROW, { kind: "preference" })), {
      code: "conflict",
      message: new RegExp(`as preference: ${one.card.id} has the same bytes and is sft`),
    });
    assert.deepEqual(await names(folder), [one.card.id]);
  }));

Deno.test("datasets are listed newest first", () =>
  withFolder(async (folder) => {
    const clock = new ManualClock(), store = storeIn(folder, { clock });
    for (const text of ["a", "b", "c"]) {
      await store.create(uploadOf(`{"text":"${text}"}`, { name: text }));
      await clock.advance(1);
    }
    assert.deepEqual((await store.list()).map(({ name }) => name), ["c", "b", "a"]);
  }));

Deno.test("an upload that fails leaves nothing", () =>
  withFolder(async (folder) => {
    const left = new AbortController(), store = storeIn(folder);
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left.signal.aborted) return controller.error(new Error("the connection broke"));
        controller.enqueue(new TextEncoder().encode(ROW));
        left.abort(new Error("the client left"));
      },
    }, { highWaterMark: 0 });
    await assert.rejects(store.create(uploadOf("", { stream: broken })), /the connection broke/);
    const slow = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode(ROW)),
    }, { highWaterMark: 0 });
    await assert.rejects(
      store.create(uploadOf("", { stream: slow, signal: left.signal })),
      /the client left/,
    );
    const check = () => Promise.reject(new ServiceError("data_invalid", "too long", { limit: "seconds" }));
    await assert.rejects(storeIn(folder, { check }).create(uploadOf(ROW)), /too long/);
    assert.deepEqual(await names(folder), []);
    assert.deepEqual(await store.list(), []);
  }));

Deno.test("archives, compressed files and empty files are refused, and leave nothing", () =>
  withFolder(async (folder) => {
    const store = storeIn(folder);
    const gzip = new Uint8Array(
      await new Response(new Blob([ROW]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer(),
    );
    const tar = new Uint8Array(1024);
    tar.set(new TextEncoder().encode("ustar"), 257);
    const zip = new Uint8Array([0x50, 0x4b, 3, 4, 20, 0]);
    for (
      const [bytes, reason] of [
        [gzip, "a gzip file"],
        [tar, "a tar archive"],
        [zip, "a zip archive"],
      ] as const
    ) {
      await assert.rejects(store.create(uploadOf(bytes)), {
        code: "format_invalid",
        message: `Cannot store the dataset: it is ${reason}; send the lines themselves`,
      });
    }
    for (const text of ["", "\n", "\ufeff", " \r\n\n"]) {
      await assert.rejects(store.create(uploadOf(text)), {
        code: "format_invalid",
        message: /it has no row$/,
      });
    }
    assert.deepEqual(await names(folder), []);
  }));

Deno.test("an archive is recognised before the rest of it arrives", () =>
  withFolder(async (folder) => {
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(sent++ === 0 ? new Uint8Array([0x1f, 0x8b]) : new Uint8Array(512));
      },
    }, { highWaterMark: 0 });
    await assert.rejects(storeIn(folder).create(uploadOf("", { stream: endless })), /a gzip file/);
    assert.equal(sent, 2);
  }));

Deno.test("broken lines are stored with their problems", () =>
  withFolder(async (folder) => {
    const { card } = await storeIn(folder).create(uploadOf(`${ROW}x\n${ROW}`));
    assert.deepEqual([card.rows, card.invalid_rows, card.problems.map(({ line }) => line)], [3, 1, [2]]);
  }));

Deno.test("what a crash left behind is removed, and a broken card is not listed", () =>
  withFolder(async (folder) => {
    const store = storeIn(folder), { card } = await store.create(uploadOf(ROW));
    const other = (await store.create(uploadOf(`${ROW}${ROW}`))).card;
    const path = (name: string) => `${folder}/datasets/${name}`;
    for (const name of [".upload-1", ".deleted-ds_1"]) {
      await Deno.mkdir(path(name));
      await Deno.writeTextFile(path(`${name}/data.jsonl`), "part");
    }
    await Deno.writeTextFile(path(`${other.id}/card.json`), '{"id":');
    await Deno.writeTextFile(path("note.txt"), "not ours");
    const reported: string[] = [];
    const again = storeIn(folder, { unreadable: (name) => reported.push(name) });
    assert.deepEqual(await again.list(), [card]);
    assert.deepEqual(reported, [other.id]);
    assert.deepEqual(await names(folder), [card.id, other.id, "note.txt"].sort());
  }));

Deno.test("a deleted dataset is gone, and its bytes can be stored again", () =>
  withFolder(async (folder) => {
    const store = storeIn(folder), { card } = await store.create(uploadOf(ROW));
    await assert.rejects(store.delete(card, () => Promise.reject(new Error("in use"))), /in use/);
    assert.deepEqual(await store.list(), [card]);
    await store.delete(card, () => Promise.resolve());
    assert.deepEqual([await store.list(), await names(folder)], [[], []]);
    assert.equal((await store.create(uploadOf(ROW))).is_new, true);
  }));
