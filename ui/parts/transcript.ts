/** An attempt as a text to read elsewhere. */

import type { TrajectoryMember, TrajectoryMessage } from "../../api/types.ts";

function callsText({ tool_calls }: TrajectoryMessage): string[] {
  return (tool_calls ?? []).map(({ function: { name, arguments: given } }) =>
    `${name}(${JSON.stringify(given)})`
  );
}

function messageText(message: TrajectoryMessage): string {
  const { role, content, reasoning_content } = message;
  return [
    `## ${role}`,
    ...(reasoning_content ? [`(thinking) ${reasoning_content}`] : []),
    ...(content === "" ? [] : [content]),
    ...callsText(message),
  ].join("\n");
}

/** The conversation of an attempt, a heading for each message, calls as `name({"path":"a.txt"})`. */
export function transcriptOf({ messages }: Pick<TrajectoryMember, "messages">): string {
  return (messages ?? []).map(messageText).join("\n\n");
}
