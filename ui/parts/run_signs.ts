/** What tells several runs apart in one chart, beside their colours. */

/** Dashes and gaps in pixels, by colour: two lines differ in both, so that colour is not the only sign. */
export const DASHES: readonly (readonly number[])[] = [
  [],
  [8, 4],
  [2, 3],
  [10, 3, 2, 3],
  [4, 4],
  [14, 4],
  [6, 2, 2, 2, 2, 2],
  [1, 5],
];

/** The sign of a run beside its colour: A for the first. */
export function letterOf(at: number): string {
  return String.fromCharCode("A".charCodeAt(0) + at);
}
