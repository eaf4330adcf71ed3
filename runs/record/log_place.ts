/** Places in a log whose lines are events with the numbers 1, 2, 3, … */

import { parseEvent } from "./event_log.ts";
import { linesFrom } from "./log_lines.ts";

/** The search ends when so many bytes remain, because a reader reads these at once. */
const SEARCH_BYTES = 1 << 16;

/**
 * The offset of the line after an event, or of a line shortly before it. A binary search by bytes, which reads about
 * 64 KiB for each halving.
 *
 * @param seq The number of the event.
 * @param end An offset after the event.
 */
export async function offsetBefore(
  path: string,
  { seq, end }: { seq: number; end: number },
): Promise<number> {
  let low = 0, high = end;
  while (seq > 0 && high - low > SEARCH_BYTES) {
    const middle = Math.floor((low + high) / 2), found = await eventAfter(path, middle);
    if (found !== null && found.start < high && found.seq <= seq + 1) low = found.start;
    else high = middle;
  }
  return low;
}

/** The first event whose line begins after an offset; null without one. */
async function eventAfter(path: string, offset: number): Promise<{ seq: number; start: number } | null> {
  // The offset may be inside a line, so the first piece is no complete line.
  let start: number | null = null;
  for await (const { line, end } of linesFrom(path, offset)) {
    const event = start === null ? null : parseEvent(line);
    if (event !== null) return { seq: event.seq, start: start! };
    start = end;
  }
  return null;
}
