/** The lines of a stream of bytes, one at a time. */

const LINE_END = 10;

/** The error of a line that is too long. */
export class LineTooLong extends Error {
  constructor(readonly max_bytes: number) {
    super(`a line has more than ${max_bytes} bytes`);
    this.name = "LineTooLong";
  }
}

/** Reads lines of at most `max_bytes`, and holds little more than one of them. */
export class LineReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();

  constructor(stream: ReadableStream<Uint8Array>, readonly max_bytes: number) {
    this.#reader = stream.getReader();
  }

  /**
   * The next line as UTF-8 without its end. Null at the end of the stream, also after a line without an end.
   *
   * @throws {LineTooLong} The reader cannot go on after it.
   */
  async next(): Promise<string | null> {
    const pieces: Uint8Array[] = [];
    let length = 0, piece = this.#rest;
    while (true) {
      const end = piece.indexOf(LINE_END);
      const part = end < 0 ? piece : piece.subarray(0, end);
      pieces.push(part);
      length += part.length;
      if (length > this.max_bytes) throw new LineTooLong(this.max_bytes);
      if (end >= 0) {
        this.#rest = piece.subarray(end + 1);
        return await new Blob(pieces as Uint8Array<ArrayBuffer>[]).text();
      }
      const { done, value } = await this.#reader.read();
      if (done) return null;
      piece = value;
    }
  }

  /** Ends the reading; a read that waits gets null. */
  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => {});
  }
}
