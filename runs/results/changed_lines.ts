/** Downloads whose lines are changed on the way, such as a log without the machine's paths. */

import { Buffer } from "node:buffer";
import { nextTurn } from "../../core/pauses.ts";
import type { Content } from "./content.ts";

/** Shows a line, without its end. */
type ShowLine = (line: string) => string;

/** A place between two lines: its offset in the text, and in what is shown of it. */
interface Place {
  text: number;
  shown: number;
}

/** A text up to a place, the size of what is shown of it, and places at which a part of it can begin. */
interface Measured {
  end: Place;
  places: readonly Place[];
}

/** The text between two remembered places: so much is read again before a part. */
const PLACE_BYTES = 1 << 20;

/** The text that is changed at once, if its lines are not longer: other work of the thread runs in between. */
const SLICE_BYTES = 1 << 15;

const NOTHING: Measured = { end: { text: 0, shown: 0 }, places: [] };

/**
 * Remembers the sizes of changed texts and places in them, because all of a text has to be read to know one. Of a file
 * that grows only what is new is read. Who asks for a text that is being read waits for that.
 */
export class MeasuredTexts {
  readonly #known = new Map<string, Promise<Measured>>();
  readonly #most: number;

  constructor(most = 20_000) {
    this.#most = most;
  }

  /** @param ends The ends of all pieces of what is shown, after a place that begins a line. */
  async of(
    { grows, version, size_bytes }: Content,
    ends: (from: Place) => AsyncIterable<Place>,
  ): Promise<Measured> {
    const name = grows ?? version, before = this.#known.get(name);
    const measuring = measure(before, { size_bytes, ends });
    this.#keep(name, measuring);
    return await measuring;
  }

  #keep(name: string, measuring: Promise<Measured>): void {
    // The newest is the last, so that the oldest is forgotten first.
    this.#known.delete(name);
    this.#known.set(name, measuring);
    measuring.catch(() => {
      if (this.#known.get(name) === measuring) this.#known.delete(name);
    });
    if (this.#known.size > this.#most) this.#known.delete(this.#known.keys().next().value!);
  }
}

async function measure(
  before: Promise<Measured> | undefined,
  { size_bytes, ends }: { size_bytes: number; ends: (from: Place) => AsyncIterable<Place> },
): Promise<Measured> {
  const known = await before?.catch(() => null) ?? null;
  if (known?.end.text === size_bytes) return known;
  const from = known && known.end.text < size_bytes ? known : NOTHING, places = [...from.places];
  let { end } = from;
  for await (end of ends(from.end)) {
    if (end.text - (places.at(-1)?.text ?? 0) >= PLACE_BYTES) places.push(end);
  }
  return { end, places };
}

/**
 * A text with other lines. A part of it is read from a remembered place a little before it.
 *
 * @param shown_as A part of the version that differs whenever `show` does.
 */
export async function changedLines(
  content: Content,
  { show, shown_as, measured_texts }: { show: ShowLine; shown_as: string; measured_texts: MeasuredTexts },
): Promise<Content> {
  const version = `${content.version}-${shown_as}`;
  const { end: { shown: size_bytes }, places } = await measured_texts.of(content, async function* (from) {
    for await (const { end } of changedPieces(content, { show, from })) yield end;
  });
  return {
    size_bytes,
    version,
    modified_ms: content.modified_ms,
    async *read(start, end) {
      if (start >= end) return;
      const from = places.findLast(({ shown }) => shown <= start) ?? NOTHING.end;
      for await (const { bytes, end: { shown } } of changedPieces(content, { show, from })) {
        const at = shown - bytes.length;
        if (shown > start) yield bytes.slice(Math.max(0, start - at), end - at);
        if (shown >= end) return;
      }
    },
  };
}

/** Entire lines of the changed text, and the place after them. */
interface ChangedPiece {
  bytes: Uint8Array<ArrayBuffer>;
  end: Place;
}

/** The changed text from a place, in pieces of about {@link SLICE_BYTES}. */
async function* changedPieces(
  content: Content,
  { show, from }: { show: ShowLine; from: Place },
): AsyncGenerator<ChangedPiece> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }), encoder = new TextEncoder();
  let end = from, is_first = true;
  for await (const lines of slicesOf(content, from.text)) {
    if (!is_first) await nextTurn();
    is_first = false;
    const bytes = encoder.encode(decoder.decode(lines).split("\n").map(show).join("\n"));
    end = { text: end.text + lines.length, shown: end.shown + bytes.length };
    yield { bytes, end };
  }
}

/** Entire lines of a text from the beginning of one, and what follows the last line end. */
async function* slicesOf(content: Content, start: number): AsyncGenerator<Uint8Array> {
  let waiting: Uint8Array[] = [];
  for await (const piece of content.read(start, content.size_bytes)) {
    let from = 0;
    for (let end = sliceEnd(piece, from); end > from; from = end, end = sliceEnd(piece, from)) {
      const lines = piece.subarray(from, end);
      yield waiting.length > 0 ? Buffer.concat([...waiting, lines]) : lines;
      waiting = [];
    }
    if (from < piece.length) waiting.push(piece.subarray(from));
  }
  if (waiting.length > 0) yield Buffer.concat(waiting);
}

/** The end of the last line that ends within a slice, else of the first that ends later; 0 without one. */
function sliceEnd(piece: Uint8Array, from: number): number {
  const last = piece.lastIndexOf(10, from + SLICE_BYTES - 1);
  return (last >= from ? last : piece.indexOf(10, from)) + 1;
}
