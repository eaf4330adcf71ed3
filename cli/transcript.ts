/** Prints conversations of an evaluation. */

import type { Transcript, TranscriptTurn } from "../agent/results/transcript.ts";
import { printable } from "../core/text.ts";
import { styled, type Terminal } from "./terminal.ts";

/** A speaker's text; lines after the first are indented. */
function said(speaker: string, text: string): string {
  return `${speaker}: ${text.trimEnd().replaceAll("\n", "\n  ")}`;
}

/** The model's text contains its calls. */
function turnLines({ text, calls }: TranscriptTurn): string[] {
  const results = calls.map(({ name, arguments: given, result }) =>
    said(given === null ? "malformed call" : `tool ${name}`, result ?? "(no result)")
  );
  return [said("assistant", text), ...results];
}

function endLine({ stop_reason, failure, verification }: Transcript): string {
  const parts: string[] = [stop_reason];
  if (failure) parts.push(`${failure.boundary}: ${failure.message}`);
  if (verification) {
    const { ended, code, output } = verification;
    parts.push(`verification ${code === null ? ended : `exited with ${code}`}${output ? `: ${output}` : ""}`);
  }
  return said("end", parts.join("; "));
}

/** Prints a conversation with its turns, calls and results, its reward and why it ended. */
export function printTranscript(terminal: Terminal, transcript: Transcript): void {
  const { scenario, attempt, attempts, passed, reward, prompt, turns } = transcript;
  const title = `${scenario}, attempt ${attempt} of ${attempts}: ${passed ? "passed" : "failed"}, ` +
    `reward ${reward ?? "none"}`;
  terminal.line(styled(terminal, "bold", printable(title)));
  const lines = [
    ...prompt.map(({ role, content }) => said(role, content)),
    ...turns.flatMap(turnLines),
    endLine(transcript),
  ];
  for (const line of lines) terminal.line(printable(line));
  terminal.line("");
}
