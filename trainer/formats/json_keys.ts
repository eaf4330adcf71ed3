/** Finds duplicate keys, which `JSON.parse` ignores. */

/** The first key that occurs twice in one object of a JSON text; null when none does. The text must be valid JSON. */
export function duplicateKey(text: string): string | null {
  /** The keys of each open object; null for an array. */
  const open: (Set<string> | null)[] = [];
  const token = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[{}[\]]/g;
  for (const [found, colon] of text.matchAll(token)) {
    if (found === "{") open.push(new Set());
    else if (found === "[") open.push(null);
    else if (found === "}" || found === "]") open.pop();
    else if (colon !== undefined) {
      const key: string = JSON.parse(found.slice(0, -colon.length));
      const keys = open.at(-1)!;
      if (keys.has(key)) return key;
      keys.add(key);
    }
  }
  return null;
}
