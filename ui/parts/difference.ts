/** Where two attempts part, in their texts. */

/** A part of a text: `end` is after its last character; a part at the end of the text may be empty. */
export interface Mark {
  start: number;
  end: number;
}

/** The first position at which two texts differ; null when they are equal. */
export function firstDifference(a: string, b: string): number | null {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) if (a[i] !== b[i]) return i;
  return a.length === b.length ? null : shorter;
}

/**
 * The place of the first different tokens in two texts that are equal before them. Tokens may begin with equal
 * characters, so the marks may begin before the first different one. Where the tokens are not in the texts as they are,
 * as part of a character, the first different character is marked.
 *
 * @param tokens The texts of the two tokens; null for an attempt that has ended there.
 * @returns Null when the texts are equal.
 */
export function marksOf(
  a: string,
  b: string,
  [a_token, b_token]: readonly [string | null, string | null],
): [Mark, Mark] | null {
  const at = firstDifference(a, b);
  if (at === null) return null;
  const has = (text: string, token: string | null, start: number) =>
    token === null ? start === text.length : token !== "" && text.startsWith(token, start);
  const longest = Math.max(a_token?.length ?? 0, b_token?.length ?? 0);
  for (let start = at; start >= Math.max(0, at - longest); start--) {
    if (has(a, a_token, start) && has(b, b_token, start)) {
      const markOf = (token: string | null) => ({ start, end: start + (token?.length ?? 0) });
      return [markOf(a_token), markOf(b_token)];
    }
  }
  const oneAt = (text: string) => ({ start: at, end: Math.min(text.length, at + 1) });
  return [oneAt(a), oneAt(b)];
}
