/** The thinking before an answer: the text between `<think>` and `</think>`. */

/** Opens the thinking. */
export const THINK_OPEN = "<think>";
/** Ends the thinking. */
export const THINK_CLOSE = "</think>";

/**
 * Splits a turn's text into the thinking (null when there is none) and the rest. Thinking that never ends has no rest.
 *
 * @param hasCall Whether a tool call begins in a text.
 */
export function splitThinking(
  text: string,
  hasCall: (text: string) => boolean,
): { reasoning: string | null; rest: string } {
  const opened = text.trimStart().startsWith(THINK_OPEN), close = text.indexOf(THINK_CLOSE);
  const thought = (until: number) => {
    const all = text.slice(0, until);
    return (opened ? all.slice(all.indexOf(THINK_OPEN) + THINK_OPEN.length) : all).trim();
  };
  if (close < 0) {
    return opened ? { reasoning: thought(text.length), rest: "" } : { reasoning: null, rest: text };
  }
  // Without an opening tag the prompt opened the thinking, unless a call comes before the closing tag.
  if (!opened && hasCall(text.slice(0, close))) return { reasoning: null, rest: text };
  return { reasoning: thought(close), rest: text.slice(close + THINK_CLOSE.length) };
}
