/** JSON from outside: a limit on its depth, and its objects. */

/** The deepest nesting of objects and arrays. */
export const MAX_JSON_DEPTH = 64;

/** Whether a value is nested deeper than a limit. Not recursive, because deep values would overflow the stack. */
export function isTooDeep(root: unknown, max_depth = MAX_JSON_DEPTH): boolean {
  const waiting: [value: unknown, depth: number][] = [[root, 0]];
  while (waiting.length > 0) {
    const [value, depth] = waiting.pop()!;
    if (typeof value !== "object" || value === null) continue;
    if (depth >= max_depth) return true;
    for (const item of Array.isArray(value) ? value : Object.values(value)) {
      if (typeof item === "object" && item !== null) waiting.push([item, depth + 1]);
    }
  }
  return false;
}

/** Whether a JSON value is an object: neither null nor an array. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `JSON.parse` with a limit on the depth. @throws {SyntaxError} */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (isTooDeep(value)) throw new SyntaxError(`nested more than ${MAX_JSON_DEPTH} levels deep`);
  return value;
}
