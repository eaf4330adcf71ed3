/** Texts that lists show on one line: names and tags. */

import { z } from "zod";

/** Control characters, and the separators that end a line as they do. */
const BREAKS = /[\p{Cc}\u2028\u2029]/u;

/** Any text on one line, of 1 to `max` characters. */
export function oneLine(max: number) {
  return z.string().min(1).max(max).refine((text) => !BREAKS.test(text), {
    error: "must be on one line, without control characters",
  });
}
