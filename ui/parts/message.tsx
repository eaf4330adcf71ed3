/** A message of a conversation that was not an attempt: of a dataset, or of a chat. */

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

function Call({ call: { name, arguments: given } }: { call: MessageCall }) {
  return (
    <div class="call">
      <code class="call-name">{name}</code>
      {typeof given === "string" ? <Code text={given} /> : given.length > 0 && (
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
      {calls.map((call, i) => <Call key={i} call={call} />)}
      {remark !== undefined && <p class="quiet">{remark}</p>}
    </article>
  );
}
