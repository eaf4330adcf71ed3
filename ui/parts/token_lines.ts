/** How tokens are set in lines of equal height, so that only the visible ones need to be drawn. */

/** Characters that take two columns: East Asian wide ones and emoji. */
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

const SIGNS: Readonly<Record<string, string>> = { "\n": "⏎", "\t": "⇥", "\r": "␍", "": "∅" };

/** A token as it is drawn: line ends, tabs and control characters as signs, so that nothing breaks a line. */
export function shownText(text: string): string {
  if (text === "") return SIGNS[""]!;
  return text.replace(
    /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (sign) => SIGNS[sign] ?? "␀",
  );
}

/** The token that is shown first: the one that an address names, else the first one of the model, else the first one. */
export function firstShown(wanted: string | null, turns: readonly { start: number | null }[]): number {
  if (wanted !== null && /^\d{1,15}$/.test(wanted)) return Number(wanted);
  return turns.find(({ start }) => start !== null)?.start ?? 0;
}

/**
 * How far a box is scrolled so that it shows a line: as little as possible by a line, else to the line, with the one
 * before it.
 *
 * @param at The top of the line. All lengths are in pixels.
 */
export function scrollFor(
  at: number,
  { top, height, line }: { top: number; height: number; line: number },
): number {
  const bottom = top + height - 2 * line;
  if (at >= top && at <= bottom) return top;
  if (at < top) return at >= top - line ? at : Math.max(0, at - line);
  return at <= bottom + line ? at + 2 * line - height : at - line;
}

/** Columns of a fixed-width font that a text takes. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const character of text) columns += WIDE.test(character) ? 2 : 1;
  return columns;
}

/**
 * Sets tokens in lines: a token that does not fit begins the next line, and a line ends after a token that ends with a
 * line end. A token that is longer than a line has one for itself.
 *
 * @param width Columns of a line. @param gap Columns between two tokens.
 * @returns The first token of each line.
 */
export function linesOf(texts: readonly string[], width: number, gap: number): number[] {
  const starts: number[] = [];
  let used = Infinity;
  texts.forEach((text, i) => {
    const columns = columnsOf(shownText(text)) + gap;
    if (used + columns > width) {
      starts.push(i);
      used = 0;
    }
    used += columns;
    if (text.endsWith("\n")) used = Infinity;
  });
  return starts;
}

/** The line of a token, by the first tokens of all lines; −1 without lines. */
export function lineOf(starts: readonly number[], token: number): number {
  let low = 0, high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle]! <= token) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The token to which a key moves; null for other keys. */
export function tokenAfterKey(
  key: string,
  token: number,
  { starts, count, page }: {
    starts: readonly number[];
    count: number;
    /** Lines of the viewport. */
    page: number;
  },
): number | null {
  const line = lineOf(starts, token), last = count - 1;
  const inLine = (to: number) => {
    const at = Math.min(starts.length - 1, Math.max(0, to)), end = (starts[at + 1] ?? count) - 1;
    return Math.min(end, starts[at]! + (token - starts[line]!));
  };
  switch (key) {
    case "ArrowLeft":
      return Math.max(0, token - 1);
    case "ArrowRight":
      return Math.min(last, token + 1);
    case "ArrowUp":
      return inLine(line - 1);
    case "ArrowDown":
      return inLine(line + 1);
    case "PageUp":
      return inLine(line - page);
    case "PageDown":
      return inLine(line + page);
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return null;
  }
}
