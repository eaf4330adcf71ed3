/** The end of a program's output, for a person. */

/** Reads a stream to its end, and keeps the last bytes that were not yet taken. */
export class OutputTail {
  /** Resolves at the end of the stream. */
  readonly done: Promise<void>;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #kept: Uint8Array = new Uint8Array();
  #is_cut = false;

  constructor(stream: ReadableStream<Uint8Array>, readonly max_bytes: number) {
    this.#reader = stream.getReader();
    this.done = this.#read().catch(() => {});
  }

  async #read(): Promise<void> {
    while (true) {
      const { value, done } = await this.#reader.read();
      if (done) return;
      const all = new Uint8Array(this.#kept.length + value.length);
      all.set(this.#kept);
      all.set(value, this.#kept.length);
      this.#is_cut ||= all.length > this.max_bytes;
      this.#kept = all.slice(-this.max_bytes);
    }
  }

  /** The text since the last call, without white space around it; `…` stands for a beginning that was dropped. */
  take(): string {
    const text = new TextDecoder().decode(this.#kept).trim(), is_cut = this.#is_cut;
    this.#kept = new Uint8Array();
    this.#is_cut = false;
    return is_cut ? `…${text}` : text;
  }

  /** Ends the reading. */
  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => {});
    await this.done;
  }
}
