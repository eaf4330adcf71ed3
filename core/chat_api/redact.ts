/** Keeps a key out of everything that an endpoint says: errors, explanations, logs. */

import { isJsonObject } from "../json.ts";

/** A shorter key is a placeholder, such as `none`: hiding it would spoil texts. Longer parts of a key are hidden too. */
export const MIN_SECRET_CHARS = 8;

/** What stands in place of a key. */
const HIDDEN = "[key]";

/** Replaces a key in a text. */
export type Redact = (text: string) => string;

/**
 * Replaces a key, and every part of it with at least {@link MIN_SECRET_CHARS} characters.
 *
 * @param key Null: there is none, and texts stay as they are.
 */
export function redactorOf(key: string | null): Redact {
  if (key === null || key.length < MIN_SECRET_CHARS) return (text) => text;
  const parts = new Set<string>();
  for (let i = 0; i + MIN_SECRET_CHARS <= key.length; i++) parts.add(key.slice(i, i + MIN_SECRET_CHARS));
  const has = (text: string) => parts.values().some((part) => text.includes(part));
  return (text) => has(text) ? withoutParts(text, parts) : text;
}

function withoutParts(text: string, parts: ReadonlySet<string>): string {
  let out = "", kept = 0;
  for (let i = 0; i < text.length; i++) {
    if (!parts.has(text.slice(i, i + MIN_SECRET_CHARS))) continue;
    let end = i + MIN_SECRET_CHARS;
    while (parts.has(text.slice(end + 1 - MIN_SECRET_CHARS, end + 1))) end++;
    out += text.slice(kept, i) + HIDDEN;
    kept = end;
    i = end - 1;
  }
  return out + text.slice(kept);
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
