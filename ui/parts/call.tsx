/** A tool call: its name and arguments in a line, and all of it when it is opened. */

import type { ComponentChildren } from "preact";
import { Code } from "./code.tsx";

/** The arguments of a call by name. */
export type CallArguments = Readonly<Record<string, unknown>>;

/** The arguments of a call in one line. */
export function argumentsLine(given: CallArguments): string {
  return Object.entries(given).map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(", ");
}

function Arguments({ given }: { given: CallArguments }) {
  return (
    <dl class="arguments">
      {Object.entries(given).map(([key, value]) => (
        <div key={key}>
          <dt>
            <code>{key}</code>
          </dt>
          <dd>
            <Code text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

interface CallProps {
  name: string;
  /** Null when they could not be read. */
  given: CallArguments | null;
  /** What the model wrote in place of arguments that can be read. */
  text?: string | null;
  is_bad?: boolean;
  is_open?: boolean;
  /** At the end of the line. */
  facts?: ComponentChildren;
  /** What came of the call. */
  children?: ComponentChildren;
}

export function Call(
  { name, given, text = null, is_bad = false, is_open = false, facts, children }: CallProps,
) {
  return (
    <details class={is_bad ? "call is-bad" : "call"} open={is_open}>
      <summary>
        <code>{name}</code>
        <span class="preview">{given && argumentsLine(given)}</span>
        {facts}
      </summary>
      {given && Object.keys(given).length > 0 && <Arguments given={given} />}
      {text !== null && <Code text={text} />}
      {children}
    </details>
  );
}
