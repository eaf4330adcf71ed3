/** Finds the name that a user probably meant. */

/** The largest edit distance for a suggestion. */
const MAX_HINT_DISTANCE = 2;

/**
 * The Levenshtein distance in characters, or `limit + 1` when it exceeds `limit`. A text that is too long is not looked
 * at, so that the work is bounded by the length of the other.
 */
export function editDistance(text: string, other: string, limit: number): number {
  // A character has at most two units.
  if (text.length > 2 * (other.length + limit) || other.length > 2 * (text.length + limit)) return limit + 1;
  const a = [...text], b = [...other];
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(swap, previous[j]! + 1, row[j - 1]! + 1));
    }
    if (Math.min(...row) > limit) return limit + 1;
    previous = row;
  }
  return Math.min(previous[b.length]!, limit + 1);
}

/**
 * The candidate with the smallest distance up to {@link MAX_HINT_DISTANCE}, the first among equals; null when there is
 * none.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | null {
  let best: string | null = null;
  let best_distance = MAX_HINT_DISTANCE + 1;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate, best_distance - 1);
    if (distance < best_distance) [best, best_distance] = [candidate, distance];
  }
  return best;
}
