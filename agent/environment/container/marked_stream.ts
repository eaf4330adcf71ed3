/** A stream of bytes in which a random word marks the end of each part. */

/** Bytes beyond a part's limit that the marker may have. */
const MAX_MARKER_BYTES = 256;

/** The error of a stream that ended before the marker, or whose part is too long. */
export class StreamEnded extends Error {}

/** A part, and its marker's match. */
export interface MarkedPart {
  bytes: Uint8Array<ArrayBuffer>;
  marker: RegExpExecArray;
}

export class MarkedStream {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #pieces: Uint8Array[] = [];
  #length = 0;
  #tail = "";

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /**
   * The bytes up to a marker, which ends what the other side writes.
   *
   * @param marker Matches at the end, and has at most 256 bytes.
   * @throws {StreamEnded} Also after more than `max_bytes` before the marker.
   */
  async until(marker: RegExp, max_bytes: number): Promise<MarkedPart> {
    while (true) {
      const match = marker.exec(this.#tail);
      if (match) return { bytes: this.#take(match[0].length), marker: match };
      if (this.#length > max_bytes + MAX_MARKER_BYTES) throw new StreamEnded("more bytes than asked for");
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    const { value, done } = await this.#reader.read();
    if (done) throw new StreamEnded("it has ended");
    this.#pieces.push(value);
    this.#length += value.length;
    const last = value.subarray(-MAX_MARKER_BYTES);
    this.#tail = (this.#tail + latin1(last)).slice(-MAX_MARKER_BYTES);
  }

  /** Takes a text at the start of the stream. @throws {StreamEnded} Also for another text. */
  async prefix(text: string): Promise<void> {
    while (this.#length < text.length) await this.#read();
    const all = this.#take(0);
    if (latin1(all.subarray(0, text.length)) !== text) throw new StreamEnded("it has another start");
    const rest = all.subarray(text.length);
    this.#pieces.push(rest);
    this.#length = rest.length;
    this.#tail = latin1(rest.subarray(-MAX_MARKER_BYTES));
  }

  /** What is left of a stream that ends, as text; its first bytes. */
  async rest(): Promise<string> {
    while (this.#length < 65_536) {
      const { value, done } = await this.#reader.read();
      if (done) break;
      this.#pieces.push(value);
      this.#length += value.length;
    }
    return new TextDecoder().decode(this.#take(0));
  }

  #take(marker_bytes: number): Uint8Array<ArrayBuffer> {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const piece of this.#pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    this.#pieces = [];
    this.#length = 0;
    this.#tail = "";
    return all.subarray(0, at - marker_bytes);
  }

  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => {});
  }
}

function latin1(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}
