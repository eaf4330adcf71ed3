/** Helpers for this room's tests. */

import { ManualClock } from "../core/clock_fake.ts";
import type { CliContext } from "./context.ts";
import { runCli } from "./program.ts";
import type { Terminal } from "./terminal.ts";

export interface TestTerminal extends Terminal {
  out: string;
  err: string;
}

/** A terminal that records its output. */
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

/** A context that can start only what `given` provides. */
export function testContext(
  given: Partial<Omit<CliContext, "setExitCode">> = {},
): Omit<CliContext, "setExitCode"> {
  const unexpected = () => Promise.reject(new Error("the command was not expected to start anything"));
  return {
    terminal: testTerminal(),
    clock: new ManualClock(),
    command_name: "svc",
    startRun: unexpected,
    evaluate: unexpected,
    collect: () => ({ [Symbol.asyncIterator]: () => ({ next: unexpected }) }),
    openJudgeModel: unexpected,
    answer: unexpected,
    runServer: unexpected,
    onInterrupt: () => () => {},
    exit: () => {},
    ...given,
  };
}

/** Runs a command that starts nothing, in this process. */
export async function runSvc(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const terminal = testTerminal();
  const code = await runCli(args, testContext({ terminal }));
  return { code, out: terminal.out, err: terminal.err };
}
