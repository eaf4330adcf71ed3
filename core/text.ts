/** Text for a person: untrusted text (file names, keys, model output) and sizes. */

/**
 * Characters that control a terminal or make text look like other text: control characters except tab and line end (C0,
 * DEL, C1), directional embeddings, overrides and isolates, line and paragraph separators, invisible characters and
 * tags. Marks and joiners that scripts need are not listed.
 */
const UNSAFE =
  // deno-lint-ignore no-control-regex
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** The text with each unsafe character shown as `�`. Tabs and line ends stay. */
export function printable(text: string): string {
  return text.replace(UNSAFE, "�");
}

/** The text on one line: line ends, tabs and quotes in it cannot imitate lines of the program. */
export function inline(text: string): string {
  return printable(text.replace(/\r?\n|\r/g, "⏎").replaceAll("\t", " "));
}

/** A list entry that may have several lines: the lines after the first are indented. */
export function indented(text: string): string {
  return text.replaceAll("\n", "\n  ");
}

/** `1.5 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const unit = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  return unit === 0 ? `${bytes} B` : `${(bytes / 1024 ** unit).toFixed(1)} ${units[unit]}`;
}

/** JSON of a value with unsafe characters escaped. Parsing it gives the same value. */
export function jsonText(value: unknown, indent?: number): string {
  const escape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value, null, indent).replace(UNSAFE, (char) => char.split("").map(escape).join(""));
}
