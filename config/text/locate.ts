/** Finds the lines of keys in a TOML text, which the parser does not report. */

/** The deepest part of a dotted key that gets its own line; deeper parts have the line of the last one. */
const MAX_PARTS = 128;

const key = (path: readonly (string | number)[]) => JSON.stringify(path.map(String));

/** Finds the line of a dotted key; see {@link locateKeys}. */
export class KeyLines {
  readonly #lines = new Map<string, number>();

  set(path: readonly string[], line: number): void {
    const name = key(path);
    if (!this.#lines.has(name)) this.#lines.set(name, line);
  }

  /** The line of the key, or of the longest prefix of its path in the text; 1 when there is none. */
  lineOf(path: readonly (string | number)[]): number {
    return this.#lines.get(key(path.slice(0, this.depthOf(path)))) ?? 1;
  }

  /** The number of leading parts of a path that are in the text, at most {@link MAX_PARTS}. */
  depthOf(path: readonly (string | number)[]): number {
    let length = Math.min(path.length, 2 * MAX_PARTS);
    while (length > 0 && !this.#lines.has(key(path.slice(0, length)))) length--;
    return length;
  }
}

/**
 * Finds table headers and keys in a valid TOML text. Every part of a dotted key or header has a line; elements of an
 * array of tables count by index. Keys inside inline tables have no line.
 */
export function locateKeys(text: string): KeyLines {
  return new Locator(text).run();
}

class Locator {
  readonly #keys = new KeyLines();
  readonly #array_lengths = new Map<string, number>();
  #table: string[] = [];
  #at = 0;
  #line = 1;

  constructor(readonly text: string) {}

  run(): KeyLines {
    while (this.#skipBlank()) {
      if (this.text[this.#at] === "[") this.#header();
      else {
        const line = this.#line;
        this.#record(this.#table, this.#dottedKey("="), line);
        this.#skipValue();
      }
    }
    return this.#keys;
  }

  /** Moves to the next statement; false at the end of the text. */
  #skipBlank(): boolean {
    while (this.#at < this.text.length) {
      const char = this.text[this.#at]!;
      if (char === "#") this.#skipComment();
      else if (/\s|\uFEFF/.test(char)) this.#step();
      else return true;
    }
    return false;
  }

  #step(count = 1): void {
    for (; count > 0 && this.#at < this.text.length; count--) {
      if (this.text[this.#at++] === "\n") this.#line++;
    }
  }

  #skipComment(): void {
    while (this.#at < this.text.length && this.text[this.#at] !== "\n") this.#at++;
  }

  #header(): void {
    const line = this.#line;
    const is_array = this.text.startsWith("[[", this.#at);
    this.#step(is_array ? 2 : 1);
    const parts = this.#dottedKey("]");
    if (is_array) this.#step();
    const path: string[] = [];
    for (const [i, part] of parts.slice(0, MAX_PARTS).entries()) {
      path.push(part);
      this.#keys.set(path, line);
      const key = JSON.stringify(path);
      if (is_array && i === parts.length - 1) {
        this.#array_lengths.set(key, (this.#array_lengths.get(key) ?? 0) + 1);
      }
      const length = this.#array_lengths.get(key);
      if (length !== undefined) {
        path.push(String(length - 1));
        this.#keys.set(path, line);
      }
    }
    this.#table = path;
  }

  #record(table: readonly string[], parts: readonly string[], line: number): void {
    for (let length = 1; length <= Math.min(parts.length, MAX_PARTS); length++) {
      this.#keys.set([...table, ...parts.slice(0, length)], line);
    }
  }

  /** Reads the parts of a key and the character that ends it. */
  #dottedKey(end: string): string[] {
    const parts: string[] = [];
    while (this.#at < this.text.length) {
      const char = this.text[this.#at]!;
      if (char === end) {
        this.#step();
        break;
      }
      if (char === '"' || char === "'") parts.push(this.#quoted(char));
      else if (/[A-Za-z0-9_-]/.test(char)) {
        const bare = /^[A-Za-z0-9_-]+/.exec(this.text.slice(this.#at, this.#at + 65_536))![0];
        parts.push(bare);
        this.#step(bare.length);
      } else this.#step();
    }
    return parts;
  }

  /** Skips a one-line string and returns its value. */
  #quoted(quote: string): string {
    const start = this.#at;
    this.#step();
    while (this.#at < this.text.length && this.text[this.#at] !== quote) {
      this.#step(quote === '"' && this.text[this.#at] === "\\" ? 2 : 1);
    }
    this.#step();
    const raw = this.text.slice(start, this.#at);
    if (quote === "'") return raw.slice(1, -1);
    try {
      return JSON.parse(raw) as string;
    } catch {
      return raw.slice(1, -1);
    }
  }

  #skipString(): void {
    const quote = this.text[this.#at]!;
    const triple = quote.repeat(3);
    if (!this.text.startsWith(triple, this.#at)) {
      this.#quoted(quote);
      return;
    }
    this.#step(3);
    while (this.#at < this.text.length && !this.text.startsWith(triple, this.#at)) {
      this.#step(quote === '"' && this.text[this.#at] === "\\" ? 2 : 1);
    }
    this.#step(3);
    // Up to two quotes may directly precede the closing three.
    while (this.text[this.#at] === quote) this.#step();
  }

  #skipValue(): void {
    let depth = 0;
    while (this.#at < this.text.length) {
      const char = this.text[this.#at]!;
      if (char === '"' || char === "'") this.#skipString();
      else if (char === "#") this.#skipComment();
      else if (char === "\n" && depth === 0) return;
      else {
        if (char === "[" || char === "{") depth++;
        else if (char === "]" || char === "}") depth--;
        this.#step();
      }
    }
  }
}
