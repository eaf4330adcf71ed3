/** JSON of others: how deep it may be. */

/** Most objects and arrays that may lie in each other. */
export const MAX_JSON_DEPTH = 64;

/** Whether a value lies deeper than {@link MAX_JSON_DEPTH}; found without recursion, for which it can be too deep. */
export function isTooDeep(root: unknown): boolean {
  const waiting: [value: unknown, depth: number][] = [[root, 0]];
  while (waiting.length > 0) {
    const [value, depth] = waiting.pop()!;
    if (typeof value !== "object" || value === null) continue;
    if (depth >= MAX_JSON_DEPTH) return true;
    for (const item of Array.isArray(value) ? value : Object.values(value)) {
      if (typeof item === "object" && item !== null) waiting.push([item, depth + 1]);
    }
  }
  return false;
}

/** `JSON.parse`, which takes any depth, up to the limit. @throws {SyntaxError} */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (isTooDeep(value)) throw new SyntaxError(`nested more than ${MAX_JSON_DEPTH} levels deep`);
  return value;
}
