/** Downloads whose lines are changed on the way, such as a log without the machine's paths. */

import type { Content } from "./content.ts";

/** Shows a line, without its end. */
type ShowLine = (line: string) => string;

/** Remembers sizes by version: to know one, all of the content is read. */
export class KnownSizes {
  readonly #known = new Map<string, number>();
  readonly #most: number;

  constructor(most = 20_000) {
    this.#most = most;
  }

  async of(version: string, count: () => Promise<number>): Promise<number> {
    const known = this.#known.get(version);
    if (known !== undefined) return known;
    const size = await count();
    if (this.#known.size >= this.#most) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(version, size);
    return size;
  }
}

/** A text with other lines. A part of it is read from its start. */
export async function changedLines(
  content: Content,
  { show, sizes }: { show: ShowLine; sizes: KnownSizes },
): Promise<Content> {
  const version = `${content.version}-changed`;
  const size_bytes = await sizes.of(version, async () => {
    let size = 0;
    for await (const piece of changedPieces(content, show)) size += piece.length;
    return size;
  });
  return {
    size_bytes,
    version,
    modified_ms: content.modified_ms,
    async *read(start, end) {
      let at = 0;
      for await (const piece of changedPieces(content, show)) {
        const from = Math.max(0, start - at), to = Math.min(piece.length, end - at);
        at += piece.length;
        if (from < to) yield piece.slice(from, to);
        if (at >= end) return;
      }
    },
  };
}

/** All of the changed text, in pieces of entire lines. */
async function* changedPieces(content: Content, show: ShowLine): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }), encoder = new TextEncoder();
  const shownLines = (text: string) => encoder.encode(text.split("\n").map(show).join("\n"));
  let waiting: string[] = [];
  for await (const piece of content.read(0, content.size_bytes)) {
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
