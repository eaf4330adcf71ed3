/** The result texts of programs that tools run. They are part of the versions of the toolsets that have such tools. */

import type { CommandResult, Sandbox, SandboxCommand } from "./sandbox.ts";

/** The most characters of stdout, and of stderr, in a result: half from the start, half from the end. */
export const MAX_STREAM_CHARS = 8000;

/** Stands for the characters between start and end. */
export const OMISSION = "[... the middle of the output is left out ...]";

/** Bytes of the end of a long output that a sandbox should keep; a character has at most four. */
const TAIL_BYTES = 2 * MAX_STREAM_CHARS;

/** Sequences with which a program colours text or moves the cursor. */
// deno-lint-ignore no-control-regex
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** Runs a program of a tool. */
export function runTool(
  command: Pick<SandboxCommand, "argv" | "stdin">,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<CommandResult> {
  return sandbox.run({ ...command, tail_bytes: TAIL_BYTES }, signal);
}

/**
 * What a program wrote and how it ended: stdout, then stderr below the line `[stderr]`, then a line for an end other
 * than status 0. A long output has {@link OMISSION} in its middle.
 */
export function commandText(result: CommandResult): string {
  const { stdout, stderr } = streamTexts(result);
  const parts = [stdout, stderr && `[stderr]\n${stderr}`, endingText(result)].filter((part) => part !== "");
  return parts.length > 0 ? parts.join("\n") : "[no output]";
}

/** Both outputs, cut and without what is for terminals. */
export function streamTexts(result: CommandResult): Record<"stdout" | "stderr", string> {
  const shown = (name: "stdout" | "stderr") =>
    cutMiddle(plain(result[name]), result.tails && plain(result.tails[name]));
  return { stdout: shown("stdout"), stderr: shown("stderr") };
}

/** Output without colours and without the line end after its last line. */
function plain(text: string): string {
  return text.replace(ESCAPES, "").replaceAll("\r\n", "\n").replace(/\n$/, "");
}

/** @param tail The end of a text of which `text` is only the start. */
function cutMiddle(text: string, tail?: string): string {
  if (!tail && text.length <= MAX_STREAM_CHARS) return text;
  const half = MAX_STREAM_CHARS / 2;
  const ends = [text.slice(0, half), (tail || text).slice(-half)].map((end) => end.toWellFormed());
  return `${ends[0]}\n${OMISSION}\n${ends[1]}`;
}

function endingText({ ended, code, capped, tails }: CommandResult): string {
  // Without its end, output that the sandbox cut looks complete.
  const cut = capped && !tails ? ["[later output was discarded]"] : [];
  if (ended === "timeout") return [...cut, "[ended: it ran past the time limit]"].join("\n");
  if (ended !== "exited") return [...cut, "[ended: it was killed]"].join("\n");
  return [...cut, ...code === 0 ? [] : [`[exit status ${code}]`]].join("\n");
}
