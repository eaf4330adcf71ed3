/** Observe directories that a crash, a full disk or another program has damaged. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { withFolder } from "../../tests/folder.ts";
import { ObservedRun } from "./observed_run.ts";
import { HOSTILE, longGroups, STILL_CLOCK, writeObserved } from "./observed_testing.ts";
import { searchMembers } from "./search.ts";
import { LineTables } from "./update_lines.ts";

const ALL = { after: -1, limit: 500 };
const SEARCH = { filter: {}, from: { update: 0, group: 0, member: 0 } };
const FIRST = { update: 1, group: 0 };

function test(name: string, body: (directory: string) => Promise<void>): void {
  Deno.test({ name, sanitizeOps: true, sanitizeResources: true, fn: () => withFolder(body) });
}

const open = (directory: string) => new ObservedRun(directory, new LineTables());

/** The offset of the last line. */
const lastLine = (bytes: Uint8Array) => bytes.lastIndexOf(10, bytes.length - 2) + 1;

test("an index that is cut at any byte of its last line loses that line only, and goes on", async (directory) => {
  await writeObserved(directory, { updates: 2 });
  const path = join(directory, "index.jsonl"), whole = await Deno.readFile(path);
  const start = lastLine(whole), follower = open(directory);
  for (let length = start; length <= whole.length; length++) {
    await Deno.writeFile(path, whole.subarray(0, length));
    const has_last = length >= whole.length - 1;
    const expected = [has_last ? [1, 2] : [1], length === start || has_last ? 0 : 1];
    // The follower has read the shorter index; another reader begins anew.
    for (const run of [follower, open(directory)]) {
      const { updates, skipped_lines } = await run.index();
      assert.deepEqual([updates.map(({ update }) => update), skipped_lines], expected, `${length}`);
    }
  }
  await Deno.writeFile(path, new TextEncoder().encode(`{"format":2,"upd\n[]\n{"format":1}\n`), {
    append: true,
  });
  const { updates, skipped_lines } = await follower.index();
  assert.deepEqual([updates.length, skipped_lines], [2, 3]);
});

test("an index that was replaced or cut back is read anew", async (directory) => {
  await writeObserved(directory, { updates: 2 });
  const path = join(directory, "index.jsonl"), whole = await Deno.readFile(path), run = open(directory);
  const names = async () => (await run.index()).updates.map(({ run_name }) => run_name);
  assert.deepEqual(await names(), ["demo", "demo"]);
  await Deno.writeFile(path, whole.subarray(0, lastLine(whole)));
  assert.deepEqual(await names(), ["demo"]);
  const other = new TextDecoder().decode(whole).replaceAll("demo", "another run");
  await Deno.writeTextFile(path, other);
  assert.deepEqual(await names(), ["another run", "another run"]);
});

test("a file of an update that is cut at any byte of its last line loses that line only", async (directory) => {
  await writeObserved(directory, { updates: 1 });
  const path = join(directory, "update_000001.jsonl"), whole = await Deno.readFile(path);
  const start = lastLine(whole), run = open(directory);
  const place = { update: 1, group: 1, member: 1 };
  for (let length = start; length <= whole.length; length++) {
    await Deno.writeFile(path, whole.subarray(0, length));
    const has_last = length >= whole.length - 1;
    const { items, skipped_lines } = await run.groups(1, ALL);
    const torn = length === start || has_last ? 0 : 1;
    assert.deepEqual([items.length, skipped_lines], [2, torn], `${length}`);
    const tokens = await run.tokens(place, ALL);
    assert.deepEqual(
      tokens?.items.map(({ id }) => id),
      has_last ? [1, 2, 3, 10, 11] : undefined,
      `${length}`,
    );
    assert.equal((await run.tokens({ ...place, member: 0 }, ALL))!.items.length, 5);
    // A search without a text stops before the tokens.
    const found = await searchMembers(run, { ...SEARCH, limit: 50, clock: STILL_CLOCK });
    assert.deepEqual([found.members.length, found.skipped_lines], [6, 0]);
  }
});

test("without an index there are no updates, without a file no groups", async (directory) => {
  const run = open(directory);
  assert.deepEqual(await run.index(), { updates: [], skipped_lines: 0 });
  await writeObserved(directory, { updates: 1 });
  assert.equal((await run.index()).updates.length, 1);
  await Deno.remove(join(directory, "update_000001.jsonl"));
  assert.deepEqual((await run.groups(1, ALL)).items, []);
  assert.deepEqual([await run.facts(FIRST), await run.group(FIRST, ALL), await run.diff(FIRST, [0, 1])], [
    null,
    null,
    null,
  ]);
  assert.deepEqual((await searchMembers(run, { ...SEARCH, limit: 50, clock: STILL_CLOCK })).members, []);
  await Deno.remove(join(directory, "index.jsonl"));
  assert.deepEqual(await run.index(), { updates: [], skipped_lines: 0 });
  await Deno.remove(directory);
  assert.deepEqual(await run.index(), { updates: [], skipped_lines: 0 });
  await Deno.mkdir(directory);
});

test("links, pipes and folders under the names of files are not opened", async (directory) => {
  await writeObserved(directory, { updates: 3 });
  const file = (update: number) => join(directory, `update_00000${update}.jsonl`);
  await Deno.rename(file(1), join(directory, "elsewhere"));
  await Deno.symlink(join(directory, "elsewhere"), file(1));
  await Deno.remove(file(2));
  await new Deno.Command("mkfifo", { args: [file(2)] }).output();
  await Deno.remove(file(3));
  await Deno.mkdir(file(3));
  const run = open(directory);
  for (const update of [1, 2, 3]) assert.deepEqual((await run.groups(update, ALL)).items, [], `${update}`);
});

test("lines of other forms are skipped and counted, and the rest is read", async (directory) => {
  await writeObserved(directory, { updates: 1 });
  const path = join(directory, "update_000001.jsonl");
  const [facts, ...rest] = (await Deno.readTextFile(path)).trimEnd().split("\n");
  const deep = "[".repeat(200) + "]".repeat(200);
  const foreign = [
    "nonsense",
    "[1]",
    `{"member":0,"group":0,"facts":{}}`,
    `{"group":0,"start":0,"part":{}}`,
    `{"group":1e3,"facts":{}}`,
    HOSTILE.split("\n")[0],
    "",
  ];
  await Deno.writeTextFile(path, [facts, ...foreign, ...rest, facts, ""].join("\n"));
  const run = open(directory);
  // A second line of the same facts counts too.
  assert.equal((await run.groups(1, ALL)).skipped_lines, 7);
  const unreadable = [
    `{"group":7,"facts":{"update":1}}`,
    `{"group":8,"facts":${deep}}`,
    `{"group":9,"facts":null}`,
    `{"group":10,"facts":{"__proto__":{"update":1}}}`,
    `{"group":11,"facts":{}`,
  ];
  await Deno.writeTextFile(path, [facts, ...rest, ...unreadable, ""].join("\n"));
  const { items, skipped_lines } = await run.groups(1, ALL);
  assert.deepEqual([items.map(({ group }) => group), skipped_lines], [[0, 1], 5]);
  assert.equal(await run.facts({ update: 1, group: 8 }), null);
});

test("arguments that are nested too deeply make their line unreadable", async (directory) => {
  await writeObserved(directory, { updates: 1 });
  const path = join(directory, "update_000001.jsonl"), text = await Deno.readTextFile(path);
  // The arguments of a call are the 7th of at most 128 levels.
  for (const [depth, messages] of [[121, 4], [122, undefined]] as const) {
    const nested = "[".repeat(depth) + "]".repeat(depth);
    await Deno.writeTextFile(path, text.replace('"__proto__":1', `"__proto__":${nested}`));
    const { items, skipped_lines } = (await open(directory).group(FIRST, ALL))!.members;
    assert.deepEqual([items[0]!.messages?.length, skipped_lines], [messages, messages ? 0 : 1], `${depth}`);
  }
});

test("bytes that are not UTF-8 make their line unreadable and no other", async (directory) => {
  await writeObserved(directory, { updates: 1 });
  const path = join(directory, "update_000001.jsonl"), bytes = await Deno.readFile(path);
  const explanation = new TextDecoder("latin1").decode(bytes).indexOf("The answer is right");
  bytes[explanation] = 0xff;
  await Deno.writeFile(path, bytes);
  const group = (await open(directory).group(FIRST, ALL))!;
  assert.equal(group.members.skipped_lines, 1);
  assert.deepEqual(group.members.items.map(({ messages }) => messages?.length), [undefined, 1, 1, 1]);
  assert.equal(group.members.items[0]!.total_reward, 1.5);
});

test("a huge line is skipped without being read, and what follows is found", async (directory) => {
  await writeObserved(directory, { updates: 1 });
  const path = join(directory, "update_000001.jsonl");
  const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
  const texts = lines.findIndex((line) => line.startsWith('{"group":0,"member":0,"texts"'));
  // Above 8 MiB; the same text below the limit is read.
  const padded = (bytes: number) => lines[texts]!.replace('"Done"', () => JSON.stringify("x".repeat(bytes)));
  for (const [bytes, skipped] of [[9 << 20, 1], [7 << 20, 0]] as const) {
    await Deno.writeTextFile(
      path,
      [...lines.slice(0, texts), padded(bytes), ...lines.slice(texts + 1), ""].join("\n"),
    );
    const { items, next, skipped_lines } = (await open(directory).group(FIRST, ALL))!.members;
    assert.deepEqual([items[0]!.messages === null, skipped_lines], [skipped === 1, skipped]);
    // A page ends after 4 MiB of lines.
    assert.deepEqual([items.length, next], skipped === 1 ? [4, null] : [1, 0]);
    const rest = (await open(directory).group(FIRST, { after: 0, limit: 500 }))!.members;
    assert.deepEqual(rest.items.map(({ member, messages }) => [member, messages!.length]), [[1, 1], [2, 1], [
      3,
      1,
    ]]);
    assert.equal((await open(directory).tokens({ ...FIRST, member: 0 }, ALL))!.items.length, 9);
  }
});

test("a part of tokens that is missing ends the list before it", async (directory) => {
  await writeObserved(directory, { updates: 1, groups: longGroups });
  const path = join(directory, "update_000001.jsonl");
  const place = { ...FIRST, member: 0 }, run = open(directory);
  const last = await run.tokens(place, { after: 1025, limit: 10 });
  assert.deepEqual([last!.items.map(({ id }) => id), last!.next], [[1026, 1027, 1028], null]);
  const across = await run.tokens(place, { after: 1021, limit: 4 });
  assert.deepEqual([across!.items.map(({ id }) => id), across!.next], [[1022, 1023, 1024, 1025], 1025]);
  const to_end_of_part = await run.tokens(place, { after: 1019, limit: 4 });
  assert.deepEqual([to_end_of_part!.items.at(-1)!.id, to_end_of_part!.next], [1023, 1023]);
  assert.deepEqual((await run.tokens(place, { after: 9999, limit: 4 }))!.items, []);
  assert.deepEqual((await run.diff(FIRST, [0, 1]))!.token, 1027);
  const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
  const kept = lines.filter((line) => !line.startsWith('{"group":0,"member":0,"start":0,"part"'));
  await Deno.writeTextFile(path, kept.join("\n") + "\n");
  const torn = await run.tokens(place, { after: -1, limit: 2000 });
  assert.deepEqual([torn!.items, torn!.next], [[], null]);
});
