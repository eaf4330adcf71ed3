/** Keeps keys and other secrets out of everything that an endpoint or a server says: errors, results, logs. */

import { isJsonObject } from "../json.ts";

/** A shorter key is a placeholder, such as `none`: hiding it would spoil texts. */
export const MIN_SECRET_CHARS = 6;

/** Parts of a key with so many characters are hidden too. */
export const MIN_PART_CHARS = 8;

/** A longer key may be cut by {@link redactedHead} before it is found; its parts are hidden all the same. */
export const MAX_WHOLE_KEY_CHARS = 4096;

/** What stands in place of a key. */
const HIDDEN = "[key]";

/** Replaces keys in a text. */
export type Redact = (text: string) => string;

/**
 * Replaces keys, and every part of them with at least {@link MIN_PART_CHARS} characters.
 *
 * @param keys Null or none: texts stay as they are.
 */
export function redactorOf(keys: string | null | readonly string[]): Redact {
  const secrets = [keys ?? []].flat().filter(({ length }) => length >= MIN_SECRET_CHARS);
  const short = secrets.filter(({ length }) => length < MIN_PART_CHARS);
  const parts = new Set<string>();
  for (const key of secrets) {
    for (let i = 0; i + MIN_PART_CHARS <= key.length; i++) parts.add(key.slice(i, i + MIN_PART_CHARS));
  }
  const has = (text: string) => parts.values().some((part) => text.includes(part));
  return (text) => {
    const shown = has(text) ? withoutParts(text, parts) : text;
    return short.reduce((shown, key) => shown.replaceAll(key, HIDDEN), shown);
  };
}

function withoutParts(text: string, parts: ReadonlySet<string>): string {
  let out = "", kept = 0;
  for (let i = 0; i < text.length; i++) {
    if (!parts.has(text.slice(i, i + MIN_PART_CHARS))) continue;
    let end = i + MIN_PART_CHARS;
    while (parts.has(text.slice(end + 1 - MIN_PART_CHARS, end + 1))) end++;
    out += text.slice(kept, i) + HIDDEN;
    kept = end;
    i = end - 1;
  }
  return out + text.slice(kept);
}

/** The beginning of a text, which is redacted before it is cut. What is far beyond the cut is not looked at. */
export function redactedHead(text: string, max_chars: number, redact: Redact): string {
  return redact(text.slice(0, max_chars + MAX_WHOLE_KEY_CHARS)).slice(0, max_chars).toWellFormed();
}

/** A JSON value with every text in it redacted, names of fields too. Its depth must be bounded. */
export function redactJson(value: unknown, redact: Redact): unknown {
  if (typeof value === "string") return redact(value);
  if (Array.isArray(value)) return value.map((item) => redactJson(item, redact));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, own]) => [redact(name), redactJson(own, redact)]),
  );
}
