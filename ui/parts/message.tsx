/** A message of a conversation that was not an attempt: of a dataset, or of a chat. */

import { Call, type CallArguments } from "./call.tsx";
import { Code } from "./code.tsx";

/** A tool call of a message. */
export interface MessageCall {
  name: string;
  /** The arguments by name, or their text. */
  arguments: readonly (readonly [name: string, text: string])[] | string;
}

export interface MessageProps {
  role: string;
  /** Before the text; empty for none. */
  thinking: string;
  text: string;
  calls: readonly MessageCall[];
  /** Said at its end. */
  remark?: string;
}

/** The arguments that a text has as JSON; null when it has none. */
export function argumentsIn(text: string): CallArguments | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? value as CallArguments
      : null;
  } catch {
    return null;
  }
}

function MessageCallView({ call: { name, arguments: given } }: { call: MessageCall }) {
  if (typeof given === "string") {
    const read = argumentsIn(given);
    return <Call name={name} given={read} text={read ? null : given} is_open={!read} />;
  }
  return (
    <div class="call">
      <code class="call-name">{name}</code>
      {given.length > 0 && (
        <dl class="arguments">
          {given.map(([key, text]) => (
            <div key={key}>
              <dt>
                <code>{key}</code>
              </dt>
              <dd>
                <Code text={text} />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

export function Message({ role, thinking, text, calls, remark }: MessageProps) {
  return (
    <article class={role === "assistant" ? "turn" : "message"}>
      <header>
        <h3>{role}</h3>
      </header>
      {thinking !== "" && (
        <details class="thinking">
          <summary>thinking</summary>
          <Code text={thinking} />
        </details>
      )}
      {text !== "" && <Code text={text} />}
      {calls.map((call, i) => <MessageCallView key={i} call={call} />)}
      {remark !== undefined && <p class="quiet">{remark}</p>}
    </article>
  );
}
