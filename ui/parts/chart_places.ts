/** Places of a chart: those that keys lead to, and how far its axes reach. */

/** How far PageUp and PageDown lead. */
const PAGE = 10;

/**
 * The place that a key leads to from another one; null when it is no such key, or there are no places.
 *
 * @param at Null: none yet.
 * @param first The first and `last` the last of the places that are shown.
 */
export function placeAfter(
  key: string,
  at: number | null,
  { first, last }: { first: number; last: number },
): number | null {
  if (last < first) return null;
  const within = (place: number) => Math.min(last, Math.max(first, place));
  switch (key) {
    case "ArrowLeft":
      return within((at ?? last + 1) - 1);
    case "ArrowRight":
      return within((at ?? first - 1) + 1);
    case "PageUp":
      return within((at ?? last) - PAGE);
    case "PageDown":
      return within((at ?? first) + PAGE);
    case "Home":
      return first;
    case "End":
      return last;
    default:
      return null;
  }
}

/** Distances between ticks of what is counted: 1, 2 and 5 times powers of ten. */
export const WHOLE_DISTANCES: readonly number[] = Array.from(
  { length: 30 },
  (_, i) => [1, 2, 5][i % 3]! * 10 ** Math.floor(i / 3),
);

/** Half the least distance of places, smallest first: the room of a bar on each side. 0.5 for fewer than two places. */
export function barRoom(places: readonly number[]): number {
  const gaps = places.slice(1).map((place, i) => place - places[i]!);
  return gaps.length === 0 ? 0.5 : gaps.reduce((least, gap) => Math.min(least, gap)) / 2;
}

/**
 * The part of an x axis that is shown of places in rising order: all of them, or from one number to another. A bar is as
 * wide as its place, and a single place has some room.
 *
 * @param bar_room The room of a bar on each side; null: there are no bars.
 */
export function edgesOf(
  places: ArrayLike<number>,
  { from, to, bar_room }: { from?: number | null; to?: number | null; bar_room: number | null },
): [number, number] {
  const first = from ?? places[0] ?? 0, last = Math.max(to ?? places[places.length - 1] ?? first, first);
  const room = bar_room ?? (first === last ? 0.5 : 0);
  return [first - room, last + room];
}

/** What an axis shows of values that are all the same: a share, and 0, between 0 and 1. Null for others. */
export function flatRange(low: number, high: number, is_share: boolean): [number, number] | null {
  return low === high && (low === 0 || is_share && low > 0 && low <= 1) ? [0, 1] : null;
}

/** How many values a logarithmic chart cannot show. */
export function countUnshown(lines: readonly { values: readonly (number | null)[] }[]): number {
  return lines.reduce(
    (sum, { values }) => sum + values.filter((value) => value !== null && value <= 0).length,
    0,
  );
}
