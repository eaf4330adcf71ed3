/** What people type into fields, as the values of a request. */

/**
 * The value that a text stands for: text where the key takes text, else JSON. What is neither goes to the server as it
 * is, which says what the key takes.
 */
export function valueOf(text: string, type: string | null): unknown {
  if (type === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Texts by the name of their field. */
export type Texts = Readonly<Record<string, string>>;

/** The values of the fields that have a text; null when none has. */
export function given(
  texts: Texts,
  read: (text: string, field: string) => unknown,
): Record<string, unknown> | null {
  const entries = Object.entries(texts).filter(([, text]) => text.trim() !== "");
  if (entries.length === 0) return null;
  return Object.fromEntries(entries.map(([field, text]) => [field, read(text.trim(), field)]));
}

/** The value of a text whose key takes any. */
export const anyValue = (text: string) => valueOf(text, null);

/** The values of the fields that have a text, by name. What is not a value goes to the server as it is. */
export function typedValues(texts: Texts): Record<string, unknown> {
  return given(texts, anyValue) ?? {};
}
