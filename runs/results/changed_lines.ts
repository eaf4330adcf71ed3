/** Downloads whose lines are changed on the way, such as a log without the machine's paths. */

import type { Content } from "./content.ts";

/** Shows a line, without its end. */
type ShowLine = (line: string) => string;

/** A text up to a place, and the size of what is shown of it. */
interface Measured {
  until: number;
  size_bytes: number;
}

/**
 * Remembers the sizes of changed texts, because all of a text has to be read to know one. Of a file that grows only what
 * is new is read. Who asks for a text that is being read waits for that.
 */
export class KnownSizes {
  readonly #known = new Map<string, Promise<Measured>>();
  readonly #most: number;

  constructor(most = 20_000) {
    this.#most = most;
  }

  /** @param count The size of what is shown of the text from a place that begins a line. */
  async of(
    { grows, version, size_bytes: until }: Content,
    count: (start: number) => Promise<number>,
  ): Promise<number> {
    const name = grows ?? version, measuring = this.#measure(this.#known.get(name), { until, count });
    this.#keep(name, measuring);
    return (await measuring).size_bytes;
  }

  async #measure(
    before: Promise<Measured> | undefined,
    { until, count }: { until: number; count: (start: number) => Promise<number> },
  ): Promise<Measured> {
    const known = await before?.catch(() => null) ?? null;
    if (known?.until === until) return known;
    const start = known && known.until < until ? known : { until: 0, size_bytes: 0 };
    return { until, size_bytes: start.size_bytes + await count(start.until) };
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

/**
 * A text with other lines. A part of it is read from its start.
 *
 * @param shown_as A part of the version that differs whenever `show` does.
 */
export async function changedLines(
  content: Content,
  { show, shown_as, sizes }: { show: ShowLine; shown_as: string; sizes: KnownSizes },
): Promise<Content> {
  const version = `${content.version}-${shown_as}`;
  const size_bytes = await sizes.of(content, async (start) => {
    let size = 0;
    for await (const piece of changedPieces(content, { show, start })) size += piece.length;
    return size;
  });
  return {
    size_bytes,
    version,
    modified_ms: content.modified_ms,
    async *read(start, end) {
      let at = 0;
      for await (const piece of changedPieces(content, { show, start: 0 })) {
        const from = Math.max(0, start - at), to = Math.min(piece.length, end - at);
        at += piece.length;
        if (from < to) yield piece.slice(from, to);
        if (at >= end) return;
      }
    },
  };
}

/** The changed text from the beginning of a line, in pieces of entire lines. */
async function* changedPieces(
  content: Content,
  { show, start }: { show: ShowLine; start: number },
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }), encoder = new TextEncoder();
  const shownLines = (text: string) => encoder.encode(text.split("\n").map(show).join("\n"));
  let waiting: string[] = [];
  for await (const piece of content.read(start, content.size_bytes)) {
    const text = decoder.decode(piece, { stream: true }), end = text.lastIndexOf("\n") + 1;
    if (end > 0) {
      yield shownLines(waiting.join("") + text.slice(0, end));
      waiting = [];
    }
    waiting.push(text.slice(end));
  }
  const rest = waiting.join("") + decoder.decode();
  if (rest !== "") yield shownLines(rest);
}
