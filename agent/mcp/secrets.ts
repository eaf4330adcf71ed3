/** Keeps secret values out of texts. */

/** The shortest value that is looked for: a shorter one may be a part of any word. */
export const MIN_SECRET_CHARS = 6;

/** Replaces each value in the text by `***`. */
export function hideSecrets(text: string, secrets: readonly string[]): string {
  const longest_first = secrets.filter(({ length }) => length >= MIN_SECRET_CHARS)
    .toSorted((a, b) => b.length - a.length);
  return longest_first.reduce((shown, secret) => shown.replaceAll(secret, "***"), text);
}
