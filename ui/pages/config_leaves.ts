/** A configuration as a list. */

/** The leaves of a configuration by dotted name, as JSON. Lists are leaves. */
export function leavesOf(value: unknown, name = ""): [name: string, text: string][] {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([key, inner]) =>
      leavesOf(inner, name === "" ? key : `${name}.${key}`)
    );
  }
  return [[name, JSON.stringify(value)]];
}
