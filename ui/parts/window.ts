/** Which rows of a long list are drawn. */

/** Rows that are drawn beyond each edge, so that a quick scroll meets no gap. */
const BEYOND = 10;

/**
 * The rows `first` to before `last` of a list with rows of equal height that a viewport shows, and some beyond.
 *
 * @param view `top` is how far the list is scrolled, `height` that of the viewport, both in pixels.
 */
export function windowOf(
  count: number,
  row_height: number,
  view: { top: number; height: number },
): { first: number; last: number } {
  const first = Math.floor(Math.max(0, view.top) / row_height) - BEYOND;
  const last = Math.ceil((Math.max(0, view.top) + view.height) / row_height) + BEYOND;
  return { first: Math.min(count, Math.max(0, first)), last: Math.min(count, last) };
}
