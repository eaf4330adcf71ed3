import { deepEqual, equal, rejects } from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { decode, encode, errorOf, failureOf, type RecordingHeader } from "./entries.ts";
import {
  MAX_RECORDED_LINE_BYTES,
  readRecording,
  readRecordingHeader,
  recordingPath,
  writeRecording,
} from "./recording_file.ts";

const HEADER: RecordingHeader = { format: 2, rollout: "update_000001", complete: true, catalogs: [] };

const ENTRY = {
  group: 0,
  member: 1,
  asked: { op: "state" },
  answer: { text: "é\ud800\u0000", list: [null] },
};

async function gzip(text: string): Promise<Uint8Array> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function gunzip(path: string): Promise<string> {
  const stream = new Blob([await Deno.readFile(path)]).stream();
  return await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).text();
}

Deno.test("JSON keeps the numbers that it does not have", () => {
  const value = { a: [NaN, Infinity, -Infinity, -0, 0, 1.5], b: null, c: "NaN" };
  deepEqual(decode(encode(value)), value);
  equal(Object.is((decode(encode([-0])) as number[])[0], -0), true);
});

Deno.test("an error keeps its message and its code", () => {
  deepEqual(failureOf(errorOf({ kind: "failed", code: "tool_failed", message: "m" })), {
    kind: "failed",
    code: "tool_failed",
    message: "m",
  });
  const timeout = { kind: "timeout", boundary: "tool", message: "late" } as const;
  deepEqual(failureOf(errorOf(timeout)), timeout);
});

Deno.test("a recording is read as it was written", async () => {
  await withFolder(async (folder) => {
    await writeRecording(folder, HEADER, [encode(ENTRY)]);
    const path = recordingPath(folder, HEADER.rollout);
    deepEqual(await readRecording(path), { header: HEADER, entries: [ENTRY] });
    deepEqual(await readRecordingHeader(path), HEADER);
  });
});

Deno.test("a torn or changed recording is refused with its line", async () => {
  await withFolder(async (folder) => {
    await writeRecording(folder, HEADER, [encode(ENTRY), encode({ ...ENTRY, answer: 2 })]);
    const path = recordingPath(folder, HEADER.rollout), whole = await Deno.readFile(path);
    const lines = (await gunzip(path)).trimEnd().split("\n");
    equal(lines.length, 4);
    const refused = async (changed: Uint8Array, line: number, reason: string) => {
      await Deno.writeFile(path, changed);
      await rejects(readRecording(path), {
        code: "format_invalid",
        message: `Cannot replay the recording ${path}: line ${line}: ${reason}; record the run again`,
        details: { path, line },
      });
    };
    const joined = (changed: string[]) => gzip(changed.map((line) => `${line}\n`).join(""));
    await refused(await joined(lines.with(2, lines[2]!.replace(":2", ":3"))), 3, "it was changed");
    await refused(await joined(lines.slice(0, 3)), 3, "it is not complete");
    await refused(await joined(lines.toSpliced(2, 1)), 3, "lines are missing");
    await refused(whole.subarray(0, whole.length - 20), 4, "it is torn or was changed");
    await refused(new TextEncoder().encode("no gzip"), 1, "it is torn or was changed");
    await refused(new Uint8Array(), 1, "it is torn or was changed");
    await writeRecording(folder, HEADER, [encode({ ...ENTRY, group: -1 })]);
    await refused(await Deno.readFile(path), 2, "it is no answer");
    await writeRecording(folder, { ...HEADER, format: 1 as 2 }, []);
    await refused(await Deno.readFile(path), 1, "it has version 1, not 2");
  });
});

Deno.test("a line has a limit", async () => {
  await withFolder(async (folder) => {
    await writeRecording(folder, HEADER, ["0".repeat(MAX_RECORDED_LINE_BYTES + 1)]);
    const path = recordingPath(folder, HEADER.rollout);
    await rejects(readRecording(path), { code: "format_invalid", details: { path, line: 2 } });
  });
});
