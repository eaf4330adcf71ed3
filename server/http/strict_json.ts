/** Strict JSON for requests: a value that `JSON.parse` would silently change becomes an entry of the problem document. */

import { MAX_JSON_DEPTH } from "../../core/json.ts";
import { pointerOf } from "./issues.ts";
import type { ProblemError } from "./problems.ts";

/** The most entries for one body. */
const MAX_ERRORS = 200;

/** The most values of one body, with its lists and objects: their checks delay all other requests. */
export const MAX_JSON_VALUES = 10_000;

/** The longest name of a field in characters. It is limited because every problem below the field repeats the name. */
const MAX_JSON_NAME = 1024;

/** A number written with more characters loses digits. */
const MAX_DIGITS = 1024;

const SPACE = /[ \t\n\r]*/y;

const QUOTE = '"', BACKSLASH = "\\";
const QUOTE_CODE = QUOTE.charCodeAt(0), BACKSLASH_CODE = BACKSLASH.charCodeAt(0);

export interface StrictJson {
  /** Without the fields whose names are too long. */
  value: unknown;
  /** False for a text that is not JSON, or more than is read of one body: nothing else is known of it. */
  is_read: boolean;
  errors: ProblemError[];
}

/** Thrown for a text that is not JSON, or has more values than are read. */
class NotJson extends Error {}

class Reader {
  readonly errors: ProblemError[] = [];
  #at = 0;
  #values = 0;
  /** Null stands for a name that is too long. */
  readonly #path: (string | number | null)[] = [];

  constructor(readonly text: string) {}

  read(): unknown {
    const value = this.#value();
    this.#skipSpace();
    if (this.#at < this.text.length) throw this.#failure();
    return value;
  }

  #failure(): NotJson {
    const where = this.#at < this.text.length ? `at character ${this.#at + 1}` : "at its end";
    return new NotJson(`is not JSON: it breaks off ${where}`);
  }

  #report(message: string): void {
    const path = this.#path.filter((part) => part !== null);
    // What is below such a name has no place that could be told.
    if (this.errors.length >= MAX_ERRORS || path.length < this.#path.length) return;
    this.errors.push({ pointer: pointerOf(path), code: "invalid_value", message });
  }

  #skipSpace(): void {
    SPACE.lastIndex = this.#at;
    SPACE.test(this.text);
    this.#at = SPACE.lastIndex;
  }

  #take(character: string): boolean {
    this.#skipSpace();
    if (this.text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  /** The token at this position that matches a sticky pattern. */
  #token(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const token = pattern.exec(this.text)?.[0] ?? null;
    if (token !== null) this.#at += token.length;
    return token;
  }

  #value(): unknown {
    if (++this.#values > MAX_JSON_VALUES) throw new NotJson(`has more than ${MAX_JSON_VALUES} values`);
    this.#skipSpace();
    const next = this.text[this.#at];
    const is_nested = next === "{" || next === "[";
    if (is_nested && this.#path.length >= MAX_JSON_DEPTH) {
      throw new NotJson(`nests more than ${MAX_JSON_DEPTH} levels deep`);
    }
    if (next === "{") return this.#object();
    if (next === "[") return this.#array();
    if (next === QUOTE) return this.#string();
    const word = this.#token(/true|false|null/y);
    return word !== null ? JSON.parse(word) : this.#number();
  }

  #string(): string {
    const end = this.#endOfString();
    let value: string;
    try {
      // An end of 0 gives no text, which is no JSON.
      value = JSON.parse(this.text.slice(this.#at, end));
    } catch {
      throw this.#failure();
    }
    this.#at = end;
    if (!value.isWellFormed()) this.#report("holds half of a surrogate pair");
    return value;
  }

  /**
   * The end of the string at this position; 0 when there is none. A pattern for strings would need a stack as deep as
   * the string is long.
   */
  #endOfString(): number {
    const { text } = this, begin = this.#at + 1;
    if (text[this.#at] !== QUOTE) return 0;
    const first = text.indexOf(QUOTE, begin);
    if (first < 0 || text[first - 1] !== BACKSLASH) return first + 1;
    // A search for each of millions of quotes takes ten times as long as reading the characters.
    for (let at = begin; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code === QUOTE_CODE) return at + 1;
      if (code === BACKSLASH_CODE) at++;
    }
    return 0;
  }

  #number(): number {
    const token = this.#token(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    if (token === null) throw this.#failure();
    // Reading very many digits takes time, and no number has them.
    const value = token.length > MAX_DIGITS ? Infinity : Number(token);
    const is_changed = Number.isFinite(value) && /^-?\d+$/.test(token) && BigInt(token) !== BigInt(value);
    if (is_changed || !Number.isFinite(value)) this.#report("is a number that would lose digits");
    return value;
  }

  #array(): unknown[] {
    const items: unknown[] = [];
    this.#at++;
    if (this.#take("]")) return items;
    do {
      this.#path.push(items.length);
      items.push(this.#value());
      this.#path.pop();
    } while (this.#take(","));
    if (!this.#take("]")) throw this.#failure();
    return items;
  }

  #object(): Record<string, unknown> {
    const fields = new Map<string, unknown>();
    let has_long_name = false;
    this.#at++;
    if (this.#take("}")) return {};
    do {
      this.#skipSpace();
      const name = this.#string(), is_long = name.length > MAX_JSON_NAME;
      has_long_name ||= is_long;
      if (!this.#take(":")) throw this.#failure();
      this.#path.push(is_long ? null : name);
      if (fields.has(name)) this.#report("occurs twice in its object");
      const value = this.#value();
      if (!is_long) fields.set(name, value);
      this.#path.pop();
    } while (this.#take(","));
    if (has_long_name) this.#report(`has a field name of more than ${MAX_JSON_NAME} characters`);
    if (!this.#take("}")) throw this.#failure();
    // Keep a field `__proto__` as a field.
    return Object.fromEntries(fields);
  }
}

/**
 * Parses JSON. Duplicate keys, lone surrogates, integers that lose precision, text that is not JSON, and a text
 * of more than {@link MAX_JSON_VALUES} values or with a name above {@link MAX_JSON_NAME} are `invalid_value`.
 */
export function parseStrictJson(text: string): StrictJson {
  const reader = new Reader(text);
  try {
    return { value: reader.read(), is_read: true, errors: reader.errors };
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    return {
      value: null,
      is_read: false,
      errors: [{ pointer: "", code: "invalid_value", message: error.message }],
    };
  }
}
