/** Uploads datasets of hostile forms to a real server: a line of a gigabyte, ten million lines, and other bytes. */

import { join } from "node:path";
import { MAX_DATA_LINE_BYTES } from "../../data/jsonl.ts";
import { withFolder } from "../../tests/folder.ts";
import { serverConfig, ServerProcess } from "../../tests/server_process.ts";
import { memoryOf } from "../bench_service/training_server.ts";
import { rounded, type SoakPart } from "./part.ts";

const PIECE_BYTES = 1 << 20;
const ROW = '{"text":"a"}';
/** What the server's own memory may rise by, however large an upload is. */
const RISE_BYTES = 200e6;

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** A text so often that it has at least this many bytes, in pieces. */
function* repeated(text: string, bytes: number): Generator<Uint8Array<ArrayBuffer>> {
  const times = Math.max(1, Math.floor(PIECE_BYTES / text.length)), piece = bytesOf(text.repeat(times));
  for (let sent = 0; sent < bytes; sent += piece.length) yield piece;
}

type Pieces = Iterable<Uint8Array<ArrayBuffer>>;

interface Case {
  body: () => Pieces;
  status: number;
  /** Of the card: rows, and the lines with problems. */
  rows?: number;
  lines?: number[];
}

/** @param count The lines of the longest file; the longest line has a hundred times as many bytes. */
function cases(count: number): Record<string, Case> {
  const line_bytes = Math.max(MAX_DATA_LINE_BYTES + 1, 100 * count), rows = `${ROW}\n`;
  const lines = Math.ceil(count * rows.length / (Math.floor(PIECE_BYTES / rows.length) * rows.length)) *
    Math.floor(PIECE_BYTES / rows.length);
  const long_line = function* (): Pieces & Generator<Uint8Array<ArrayBuffer>> {
    yield bytesOf(`${rows}{"text":"`);
    yield* repeated("x", line_bytes);
    yield bytesOf(`"}\n${rows}`);
  };
  const zip = new Uint8Array([0x50, 0x4b, 3, 4]), gzip = new Uint8Array([0x1f, 0x8b, 8, 0]);
  const tar = bytesOf(`${"\0".repeat(257)}ustar${"\0".repeat(512)}`);
  const at_line = Math.ceil(count / 2);
  const broken = function* (): Pieces & Generator<Uint8Array<ArrayBuffer>> {
    yield bytesOf(rows.repeat(at_line - 1));
    yield new Uint8Array([0x22, 0xff, 0x22, 10]);
    yield bytesOf(rows);
  };
  return {
    "a line that is too long": { body: long_line, status: 201, rows: 3, lines: [2] },
    "many lines": { body: () => repeated(rows, count * rows.length), status: 201, rows: lines, lines: [] },
    "CR LF": { body: () => [bytesOf(`${ROW}\r\n${ROW}\r\n{`)], status: 201, rows: 3, lines: [3] },
    "a byte order mark": { body: () => [bytesOf(`\ufeff${ROW}\nx`)], status: 201, rows: 2, lines: [2] },
    "no line end at the end": { body: () => [bytesOf(`${ROW}\n${ROW} `)], status: 201, rows: 2, lines: [] },
    "bytes that are no UTF-8": { body: broken, status: 201, rows: at_line + 1, lines: [at_line] },
    "a zip archive": { body: () => [zip, tar], status: 422 },
    "a tar archive": { body: () => [tar], status: 422 },
    "a gzip file": { body: () => [gzip, ...repeated("\0", 100 * count)], status: 422 },
  };
}

/** Uploads a file. @returns The status and the answer; null when the server closed the connection while it was sent. */
async function upload(url: string, pieces: Pieces, signal?: AbortSignal) {
  const headers = { "content-type": "application/x-ndjson" };
  const body = ReadableStream.from(pieces), init = { method: "POST", headers, body };
  const response = await fetch(`${url}/v1/datasets`, { ...init, ...(signal && { signal }) });
  return { status: response.status, json: await response.json() };
}

/** What is wrong with the answer to an upload; null when nothing is. */
function wrong(
  { status, rows, lines }: Case,
  found: { status: number; json: { rows: number; problems: { line: number }[] } },
): string | null {
  if (found.status !== status) return `${found.status} ${JSON.stringify(found.json).slice(0, 200)}`;
  if (status !== 201) return null;
  const told = found.json.problems.map(({ line }) => line);
  return found.json.rows === rows && `${told}` === `${lines}`
    ? null
    : `${found.json.rows} rows, problems at ${told}`;
}

/** F3: broken lines are told by their number, and what is no dataset leaves nothing. */
export const datasets: SoakPart = {
  what: "uploads a line of a gigabyte, ten million lines, archives and broken text",
  full: { count: 10_000_000, minutes: Infinity },
  async run({ count, say }) {
    const failures: string[] = [], seconds: Record<string, number> = {};
    let rise_bytes = 0;
    await withFolder(async (folder) => {
      const data = `data_dir = ${JSON.stringify(join(folder, "data"))}\n`;
      const server = await ServerProcess.start({ config: await serverConfig(folder, data) });
      const before = (await memoryOf(server.child.pid)).now;
      try {
        for (const [name, given] of Object.entries(cases(count))) {
          const started = performance.now(), found = await upload(server.url, given.body());
          seconds[name] = rounded((performance.now() - started) / 1000);
          const problem = wrong(given, found);
          if (problem !== null) failures.push(`${name}: ${problem}`);
          if (found.status === 201) {
            await (await fetch(`${server.url}/v1/datasets/${found.json.id}`, { method: "DELETE" })).body
              ?.cancel();
          }
          say(`${name}: ${found.status} after ${seconds[name]} s`);
        }
        const left = new AbortController();
        const endless = function* () {
          for (const piece of repeated(`${ROW}\n`, Infinity)) {
            yield piece;
            if (Math.random() < 0.05) left.abort();
          }
        };
        await upload(server.url, endless(), left.signal).catch(() => {});
        await server.line(({ route, status }) => route === "/v1/datasets" && status === 499);
        rise_bytes = (await memoryOf(server.child.pid)).peak - before;
      } finally {
        await server.stop();
      }
      const names = Array.from(Deno.readDirSync(join(folder, "data/datasets")), ({ name }) => name);
      if (names.length > 0) failures.push(`left behind: ${names}`);
    });
    if (rise_bytes > RISE_BYTES) {
      failures.push(`the server's memory rose by ${Math.round(rise_bytes / 1e6)} MB`);
    }
    return { failures, seconds, rise_bytes };
  },
};
