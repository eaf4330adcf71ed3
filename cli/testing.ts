/** What the tests of this room share. */

import { ManualClock } from "../core/clock.ts";
import { runCli } from "./program.ts";
import type { Terminal } from "./terminal.ts";

export interface TestTerminal extends Terminal {
  out: string;
  err: string;
}

/** A terminal that remembers. */
export function testTerminal(
  options: Partial<Pick<Terminal, "interactive" | "color" | "columns">> = {},
): TestTerminal {
  const terminal: TestTerminal = {
    out: "",
    err: "",
    interactive: false,
    color: false,
    columns: 80,
    ...options,
    write: (text) => terminal.out += text,
    line: (text) => terminal.out += `${text}\n`,
    error: (text) => terminal.err += `${text}\n`,
  };
  return terminal;
}

/** A run that never starts. */
export function noRun(): Promise<never> {
  return Promise.reject(new Error("no run was expected"));
}

/** Runs a command in this process. */
export async function runCommand(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const terminal = testTerminal();
  const code = await runCli(args, {
    terminal,
    clock: new ManualClock(),
    startRun: noRun,
    startServer: (path) => Promise.resolve(terminal.line(`server ${path}`)),
    onInterrupt: () => () => {},
    exit: () => {},
  });
  return { code, out: terminal.out, err: terminal.err };
}
