/** Values of a configuration by dotted key. */

/** The value at a key; undefined where there is none. */
export function valueAt(config: unknown, key: string): unknown {
  return key.split(".").reduce(
    (value, part) => (value as Record<string, unknown> | null | undefined)?.[part],
    config,
  );
}

/** The leaves of a configuration by dotted key; lists are leaves. */
export function leafValues(value: unknown, key = ""): [key: string, value: unknown][] {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[key, value]];
  return Object.entries(value).flatMap(([name, inner]) =>
    leafValues(inner, key === "" ? name : `${key}.${name}`)
  );
}
