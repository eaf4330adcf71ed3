/** How a list of tokens is shown and walked through. */

/** A token's text with the characters that would not be seen as signs; a line break stays one. */
export function shownToken(text: string): string {
  if (/^ +$/.test(text)) return "␣".repeat(text.length);
  return text.replace(/\r/g, "␍").replace(/\t/g, "⇥\t").replace(/\n/g, "↵\n") || "∅";
}

/** The place to which a key leads in a list; null for other keys. A place of -1 is before the first. */
export function nextToken(key: string, at: number, length: number): number | null {
  if (length === 0) return null;
  switch (key) {
    case "ArrowRight":
    case "ArrowDown":
      return Math.min(at + 1, length - 1);
    case "ArrowLeft":
    case "ArrowUp":
      return Math.max(at - 1, 0);
    case "Home":
      return 0;
    case "End":
      return length - 1;
    default:
      return null;
  }
}

/** The first token of the next part that is trained, from the start again after the last; null when none is. */
export function nextTrained(tokens: readonly { trained: boolean }[], at: number): number | null {
  const starts = tokens.flatMap(({ trained }, i) => trained && !tokens[i - 1]?.trained ? [i] : []);
  return starts.find((start) => start > at) ?? starts[0] ?? null;
}
