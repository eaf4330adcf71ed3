/**
 * Uploaded datasets: a folder for each, `<id>/`, with the bytes (`data.jsonl`), the card (`card.json`) and the index of
 * lines (`lines.json`). A folder appears by one rename when it is complete. Equal bytes are stored once.
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import type { DataKind } from "../../config/algorithms.ts";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { type Clock, timestamp } from "../../core/clock.ts";
import { doing, ServiceError } from "../../core/errors.ts";
import { makeFolder, syncDirectory, writeFileAtomic } from "../../core/files.ts";
import { newId } from "../../core/ids.ts";
import type { LineStart } from "../../data/jsonl.ts";
import { archiveName } from "./archive_names.ts";
import type { DatasetCheck } from "./check_dataset.ts";
import { DATASET_KINDS } from "./dataset_kind.ts";

/** The facts about a dataset. */
export const datasetCardSchema = z.strictObject({
  id: z.string(),
  name: z.string().meta(TEXTS.data),
  kind: z.enum(DATASET_KINDS).nullable().meta({
    description: "Null when no row has the fields of a kind.",
  }),
  rows: z.int().gte(0).meta({ description: "Lines that are not blank, also those with problems." }),
  invalid_rows: z.int().gte(0).meta({
    description: "Lines that training would refuse, also blank ones among the rows, which `rows` leaves out.",
  }),
  size_bytes: z.int().gte(0),
  sha256: z.string().meta({ description: "Of the bytes as uploaded, in lower-case hex." }),
  fields: z.array(z.string()).meta({
    description: "Names of the rows' fields, in the order of occurrence.",
    ...TEXTS.data,
  }),
  problems: z.array(z.strictObject({ line: z.int().gte(1), message: z.string() })).meta({
    description: "The first 20 lines that training would refuse; lines count from 1.",
  }),
  created_at: z.iso.datetime(),
}).meta({ id: "Dataset", description: "What the server knows of uploaded data." });

/** A dataset as the API shows it and as its folder stores it. */
export type DatasetCard = z.output<typeof datasetCardSchema>;

const startsSchema = z.array(z.strictObject({ line: z.int(), offset: z.int() })).min(1);

/** The lines of a dataset. A list has the places only; then the last line is not known. */
const linesSchema = z.union([
  z.strictObject({ starts: startsSchema, last_line: z.int() }),
  startsSchema.transform((starts) => ({ starts, last_line: Infinity })),
]);

/** The names of unfinished folders begin with these. Those that a crash left are removed when the store opens. */
const UPLOAD_PREFIX = ".upload-", DELETED_PREFIX = ".deleted-";

/** The form of a dataset's id. */
export const DATASET_ID = /^ds_[0-9A-HJKMNP-TV-Z]{26}$/;

/** Whether a text has the form of a dataset's id. */
export function isDatasetId(text: string): boolean {
  return DATASET_ID.test(text);
}

export interface DatasetStoreOptions {
  /** Made at the first upload. */
  folder: string;
  clock: Clock;
  /** Reads a complete file. @throws {ServiceError} */
  check: (
    request: { path: string; kind: DataKind | "auto"; size_bytes: number },
    signal: AbortSignal,
  ) => Promise<DatasetCheck>;
  /** Receives the ids of folders whose card cannot be read; they are not listed. */
  unreadable?: (folder: string, reason: string) => void;
}

export interface Upload {
  stream: ReadableStream<Uint8Array>;
  /** Absent: the id. */
  name?: string | undefined;
  kind: DataKind | "auto";
  /** Aborts the upload. */
  signal: AbortSignal;
}

/** A complete file in its folder, not yet published. */
interface Uploaded {
  folder: string;
  size_bytes: number;
  sha256: string;
}

/**
 * The datasets of a server. One store works in a folder at a time.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "../../core/clock.ts";
 * import { checkDataset } from "./check_dataset.ts";
 *
 * const folder = await Deno.makeTempDir();
 * const store = new DatasetStore({ folder, clock: systemClock, check: (request) => checkDataset(request) });
 * const stream = new Blob(['{"text": "Once."}\n']).stream();
 * const { card } = await store.create({ stream, kind: "auto", signal: new AbortController().signal });
 * assert.deepEqual([card.kind, card.rows, await store.list()], ["sft", 1, [card]]);
 * await Deno.remove(folder, { recursive: true });
 * ```
 */
export class DatasetStore {
  readonly #options: DatasetStoreOptions;
  #cards: Promise<Map<string, DatasetCard>> | null = null;
  /** The number of holds on each dataset. */
  readonly #held = new Map<string, number>();
  /** Publishing and deleting run one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: DatasetStoreOptions) {
    this.#options = options;
  }

  /** All cards, newest first. */
  async list(): Promise<DatasetCard[]> {
    return [...(await this.#all()).values()].sort((a, b) => a.id < b.id ? 1 : -1);
  }

  /** Null when there is no such dataset. */
  async get(id: string): Promise<DatasetCard | null> {
    return (await this.#all()).get(id) ?? null;
  }

  /** The file of an existing dataset. */
  pathOf({ id }: DatasetCard): string {
    return join(this.#options.folder, id, "data.jsonl");
  }

  /** The place of a line, or of one before it. */
  async startOf(card: DatasetCard, line: number): Promise<LineStart> {
    const { starts } = await this.#linesOf(card);
    return starts.findLast((start) => start.line <= line) ?? { line: 1, offset: 0 };
  }

  /** Whether a line number, from 1, is at most that of the last line. */
  async hasLine(card: DatasetCard, line: number): Promise<boolean> {
    return line <= (await this.#linesOf(card)).last_line;
  }

  async #linesOf({ id }: DatasetCard) {
    const path = join(this.#options.folder, id, "lines.json");
    return linesSchema.parse(JSON.parse(await Deno.readTextFile(path)));
  }

  /**
   * Stores a file: streams it to the disk, checks its rows, and publishes it. A failure leaves nothing.
   *
   * @returns The card, and whether it is new; of equal bytes the first card.
   * @throws {ServiceError} `format_invalid` for an archive or an empty file; `conflict` when the bytes are stored as
   * another kind; the check's errors, the stream's error, the signal's reason.
   */
  async create(upload: Upload): Promise<{ card: DatasetCard; is_new: boolean }> {
    await this.#all();
    const folder = join(this.#options.folder, `${UPLOAD_PREFIX}${crypto.randomUUID()}`);
    try {
      await makeFolder(folder);
      const uploaded = await receive(folder, upload);
      const known = await this.#sameBytes(uploaded.sha256, upload.kind);
      if (known) return { card: known, is_new: false };
      const check = await this.#options.check(
        { path: join(folder, "data.jsonl"), kind: upload.kind, size_bytes: uploaded.size_bytes },
        upload.signal,
      );
      if (check.rows === 0) throw refuse("it has no row");
      return await this.#exclusive(async () => {
        // Another upload of the same bytes may have ended first.
        const other = await this.#sameBytes(uploaded.sha256, upload.kind);
        return other ? { card: other, is_new: false } : await this.#publish(uploaded, check, upload);
      });
    } finally {
      await Deno.remove(folder, { recursive: true }).catch(() => {});
    }
  }

  /** Protects datasets from being deleted until the hold is disposed. The ids of missing datasets are allowed. */
  hold(ids: readonly string[]): Disposable {
    for (const id of ids) this.#held.set(id, (this.#held.get(id) ?? 0) + 1);
    return {
      [Symbol.dispose]: () => {
        for (const id of ids) {
          const rest = this.#held.get(id)! - 1;
          if (rest > 0) this.#held.set(id, rest);
          else this.#held.delete(id);
        }
      },
    };
  }

  /** Whether a dataset is held. */
  isHeld(id: string): boolean {
    return this.#held.has(id);
  }

  /** Deletes an existing dataset. @param mayDelete Throws when it is in use. */
  async delete({ id }: DatasetCard, mayDelete: () => Promise<void>): Promise<void> {
    await this.#exclusive(async () => {
      await mayDelete();
      const { folder } = this.#options;
      const deleted = join(folder, `${DELETED_PREFIX}${id}`);
      const cards = await this.#all(), card = cards.get(id)!;
      // First, so that whoever finds a file missing finds no dataset either.
      cards.delete(id);
      try {
        await doing(`delete the dataset ${id}`, () => Deno.rename(join(folder, id), deleted));
      } catch (error) {
        cards.set(id, card);
        throw error;
      }
      await syncDirectory(folder);
      await Deno.remove(deleted, { recursive: true });
    });
  }

  async #publish(
    { folder, size_bytes, sha256 }: Uploaded,
    { kind, rows, invalid_rows, fields, problems, starts, last_line }: DatasetCheck,
    { name }: Upload,
  ): Promise<{ card: DatasetCard; is_new: boolean }> {
    const { clock, folder: parent } = this.#options;
    const id = newId("ds", clock), created_at = timestamp(clock);
    const facts = { kind, rows, invalid_rows, size_bytes, sha256, fields, problems };
    const card: DatasetCard = { id, name: name ?? id, ...facts, created_at };
    await writeFileAtomic(join(folder, "lines.json"), JSON.stringify({ starts, last_line }));
    await writeFileAtomic(join(folder, "card.json"), `${JSON.stringify(card, null, 2)}\n`);
    await doing(`store the dataset ${id}`, () => Deno.rename(folder, join(parent, id)));
    await syncDirectory(parent);
    (await this.#all()).set(id, card);
    return { card, is_new: true };
  }

  async #sameBytes(sha256: string, kind: Upload["kind"]): Promise<DatasetCard | null> {
    const known = [...(await this.#all()).values()].find((card) => card.sha256 === sha256) ?? null;
    if (known && kind !== "auto" && known.kind !== kind) {
      const message = `Cannot store the dataset as ${kind}: ${known.id} has the same bytes and is ` +
        `${known.kind ?? "of no kind"}; delete it first`;
      throw new ServiceError("conflict", message);
    }
    return known;
  }

  #all(): Promise<Map<string, DatasetCard>> {
    return this.#cards ??= this.#open().catch((error) => {
      this.#cards = null;
      throw error;
    });
  }

  /** Reads all cards, and removes what a crash left behind. */
  async #open(): Promise<Map<string, DatasetCard>> {
    const { folder, unreadable } = this.#options;
    const cards = new Map<string, DatasetCard>();
    const entries = await Array.fromAsync(Deno.readDir(folder)).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    });
    for (const { name } of entries) {
      if (name.startsWith(UPLOAD_PREFIX) || name.startsWith(DELETED_PREFIX)) {
        await Deno.remove(join(folder, name), { recursive: true });
      }
      if (!isDatasetId(name)) continue;
      try {
        const card = datasetCardSchema.parse(
          JSON.parse(await Deno.readTextFile(join(folder, name, "card.json"))),
        );
        if (card.id === name) cards.set(name, card);
        else unreadable?.(name, `its card has the id ${card.id}`);
      } catch (error) {
        unreadable?.(name, (error as Error).message);
      }
    }
    return cards;
  }

  #exclusive<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }
}

function refuse(reason: string): ServiceError {
  return new ServiceError("format_invalid", `Cannot store the dataset: ${reason}`);
}

/** How much of an upload may wait for the disk. */
const WRITE_AHEAD_BYTES = 8 << 20;

/**
 * Writes the stream to the disk piece by piece, and reads the next pieces during the writes: a pause between two reads
 * makes Deno's next read of a request many times slower.
 */
async function receive(folder: string, { stream, signal }: Upload): Promise<Uploaded> {
  const hash = createHash("sha256");
  let size_bytes = 0, head = new Uint8Array();
  const check = () => {
    const name = archiveName(head);
    if (name !== null) throw refuse(`it is ${name}; send the lines themselves`);
  };
  await doing("store the dataset", async () => {
    using file = await Deno.open(join(folder, "data.jsonl"), { write: true, createNew: true });
    await using writer = new WriteAhead(file);
    for await (const chunk of stream) {
      signal.throwIfAborted();
      if (head.length < HEAD_BYTES) {
        head = joined(head, chunk.subarray(0, HEAD_BYTES));
        if (head.length >= HEAD_BYTES) check();
      }
      hash.update(chunk);
      await writer.add(chunk);
      size_bytes += chunk.length;
    }
    signal.throwIfAborted();
    check();
    await writer.end();
    await file.sync();
  }, "internal");
  return { folder, size_bytes, sha256: hash.digest("hex") };
}

/** Writes pieces in order, while at most {@link WRITE_AHEAD_BYTES} wait. */
class WriteAhead implements AsyncDisposable {
  #waiting_bytes = 0;
  #written: Promise<void> = Promise.resolve();

  constructor(readonly file: Deno.FsFile) {}

  /** Resolves when there is room for more. @throws The error of an earlier write. */
  async add(piece: Uint8Array): Promise<void> {
    this.#waiting_bytes += piece.length;
    this.#written = this.#written.then(async () => {
      for (let at = 0; at < piece.length;) at += await this.file.write(piece.subarray(at));
      this.#waiting_bytes -= piece.length;
    });
    // A later add() or end() throws the error.
    this.#written.catch(() => {});
    if (this.#waiting_bytes > WRITE_AHEAD_BYTES) await this.#written;
  }

  /** Resolves when all is written. @throws The error of a write. */
  async end(): Promise<void> {
    await this.#written;
  }

  /** Waits for the write in progress: its file is still open. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#written.catch(() => {});
  }
}

/** The first bytes of a file, by which archives are recognised. */
const HEAD_BYTES = 512;

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
