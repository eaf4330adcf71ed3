/** A stream of bytes in which a random word marks the end of each part. */

/** Bytes beyond a part's limit that the marker may have. */
const MAX_MARKER_BYTES = 256;

/** A sink gets pieces of about so many bytes. */
const SINK_BYTES = 1 << 20;

const NOTHING = new Uint8Array();

/** Takes the bytes of a part, piece by piece. */
export type Sink = (bytes: Uint8Array<ArrayBuffer>) => Promise<void>;

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
   * @param sink Takes the bytes, which are not returned then.
   * @throws {StreamEnded} Also after more than `max_bytes` before the marker.
   */
  async until(marker: RegExp, max_bytes: number, sink?: Sink): Promise<MarkedPart> {
    let taken = 0;
    while (true) {
      const match = marker.exec(this.#tail);
      if (match) {
        const bytes = this.#take(match[0].length);
        if (sink) await sink(bytes);
        return { bytes: sink ? NOTHING : bytes, marker: match };
      }
      if (taken + this.#length > max_bytes + MAX_MARKER_BYTES) {
        throw new StreamEnded("more bytes than asked for");
      }
      if (sink && this.#length > SINK_BYTES) {
        const tail = this.#tail, all = this.#take(0), at = all.length - MAX_MARKER_BYTES;
        await sink(all.subarray(0, at));
        taken += at;
        this.#put(all.subarray(at), tail);
      }
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    const { value, done } = await this.#reader.read();
    if (done) throw new StreamEnded("it has ended");
    const last = latin1(value.subarray(-MAX_MARKER_BYTES));
    this.#put(value, (this.#tail + last).slice(-MAX_MARKER_BYTES));
  }

  #put(bytes: Uint8Array, tail: string): void {
    this.#pieces.push(bytes);
    this.#length += bytes.length;
    this.#tail = tail;
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
