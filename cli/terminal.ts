/** Output of the commands, and properties of the terminal. */

import { indented, printable } from "../core/text.ts";

/** Where a command writes: the process's streams, or a test's lists. */
export interface Terminal {
  /** Writes to standard output as it is. */
  write(text: string): void;
  /** Writes a line to standard output. */
  line(text: string): void;
  /** Writes a line to standard error. */
  error(text: string): void;
  /** Standard output is a terminal, so a line can be overwritten. */
  interactive: boolean;
  /** Standard output failed, so the rest was not read. */
  readonly is_lost?: boolean;
  color: boolean;
  columns: number;
}

const DEFAULT_COLUMNS = 80;

function writeAll(stream: typeof Deno.stdout, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length;) at += stream.writeSync(bytes.subarray(at));
}

/**
 * The process's streams. A run continues even if they fail, because its log is in its folder. When standard output can
 * no longer be written (its reader left, the disk is full, the terminal disappeared), standard error says so once, and
 * nothing more is written there. Colours only on terminals, and never with `NO_COLOR` set.
 *
 * @param program The prefix of its own message; absent: `svc`.
 */
export function processTerminal(program = "svc"): Terminal {
  const interactive = Deno.stdout.isTerminal();
  let is_lost = false;
  const error = (text: string) => {
    try {
      writeAll(Deno.stderr, `${text}\n`);
    } catch {
      // Nobody is left to read it.
    }
  };
  const write = (text: string) => {
    if (is_lost) return;
    try {
      writeAll(Deno.stdout, text);
    } catch (cause) {
      is_lost = true;
      error(`${program}: Cannot write to standard output any more: ${(cause as Error).message}`);
    }
  };
  return {
    write,
    line: (text) => write(`${text}\n`),
    error,
    interactive,
    get is_lost() {
      return is_lost;
    },
    color: interactive && !Deno.env.get("NO_COLOR"),
    get columns() {
      try {
        return Deno.consoleSize().columns || DEFAULT_COLUMNS;
      } catch {
        return DEFAULT_COLUMNS;
      }
    },
  };
}

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

export type Style = keyof typeof STYLES;

/** The text in a style, if the terminal has colours. */
export function styled(terminal: Terminal, style: Style, text: string): string {
  return terminal.color ? `\x1b[${STYLES[style]}m${text}\x1b[0m` : text;
}

/** Prints a notice on standard error. */
export function printNotice(terminal: Pick<Terminal, "error">, text: string): void {
  terminal.error(printable(noticeText(text)));
}

/** A notice as standard error shows it: its further lines are indented. */
export const noticeText = (text: string) => indented(`svc: ${text}`);

export type Row = readonly [name: string, value: string];

/** Prints names and values in two columns. */
export function printRows(terminal: Terminal, rows: readonly Row[]): void {
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  for (const [name, value] of rows) terminal.line(printable(indented(`${name.padEnd(width)}${value}`)));
}
