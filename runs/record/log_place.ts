/** Places in a log whose lines are events with the numbers 1, 2, 3, … */

import { parseEvent } from "./event_log.ts";
import { linesFrom } from "./log_lines.ts";

/** The search ends at so many bytes, which a reader reads at once. */
const SEARCH_BYTES = 1 << 16;

/**
 * The offset of a line that is the one after an event, or lies a little before that. A binary search by bytes: it reads
 * some 64 KiB for each halving, however long the log is.
 *
 * @param seq The number of the event.
 * @param end An offset after the line that is looked for.
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
  // The first line may have begun before.
  let start: number | null = null;
  for await (const { line, end } of linesFrom(path, offset)) {
    const event = start === null ? null : parseEvent(line);
    if (event !== null) return { seq: event.seq, start: start! };
    start = end;
  }
  return null;
}
