/** A conversation with its tool calls, results and rewards. */

import type { TrajectoryCall, TrajectoryMember, TrajectoryMessage, TrajectoryTurn } from "../../api/types.ts";
import { durationText, numberText } from "./format.ts";

/** Results that are longer are folded. */
const FOLDED_CHARS = 600;

function Text({ text }: { text: string }) {
  if (text.length <= FOLDED_CHARS) return <pre class="text">{text}</pre>;
  return (
    <details class="long">
      <summary>
        <pre class="text">{text.slice(0, FOLDED_CHARS)} …</pre>
        <span class="quiet">{text.length.toLocaleString("en")} characters: show all</span>
      </summary>
      <pre class="text">{text.slice(FOLDED_CHARS)}</pre>
    </details>
  );
}

function Reward({ value }: { value: number | null }) {
  if (value === null || value === 0) return null;
  return <span class={value > 0 ? "reward good" : "reward bad"}>{value > 0 && "+"}{numberText(value)}</span>;
}

function Call({ call }: { call: TrajectoryCall }) {
  const { name, arguments: given, text, malformed, result, reward, failure, exec_ms } = call;
  return (
    <details class={malformed || failure ? "call is-bad" : "call"} open>
      <summary>
        <code>{malformed ? "malformed call" : name}</code> <Reward value={reward} />
        <span class="quiet">{durationText(exec_ms / 1000)}</span>
      </summary>
      {given && Object.keys(given).length > 0 && (
        <dl class="arguments">
          {Object.entries(given).map(([key, value]) => (
            <div key={key}>
              <dt>
                <code>{key}</code>
              </dt>
              <dd>
                <Text text={typeof value === "string" ? value : JSON.stringify(value, null, 1)} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {text !== null && <Text text={text} />}
      {result !== null && (
        <div class="result">
          <h4>result</h4>
          <Text text={result} />
        </div>
      )}
      {failure && <p class="field-error">{failure.boundary} failed: {failure.message}</p>}
    </details>
  );
}

function Turn({ turn }: { turn: TrajectoryTurn }) {
  return (
    <li class="turn">
      <header>
        <h3>Turn {turn.turn + 1}</h3>
        <Reward value={turn.reward} />
        {turn.advantage !== null && <span class="quiet">advantage {numberText(turn.advantage)}</span>}
        <span class="quiet">
          {turn.start !== null && turn.end !== null && `${turn.end - turn.start} tokens · `}
          {durationText((turn.generate_ms + turn.tools_ms) / 1000)}
        </span>
      </header>
      {turn.text !== null && turn.text.trim() !== "" && <Text text={turn.text} />}
      {turn.calls?.map((call) => <Call key={call.index} call={call} />)}
    </li>
  );
}

/** What the model was given before its first turn. */
export function promptOf(messages: readonly TrajectoryMessage[]): TrajectoryMessage[] {
  const first = messages.findIndex(({ role }) => role === "assistant");
  return first < 0 ? [...messages] : messages.slice(0, first);
}

export function Conversation({ member }: { member: TrajectoryMember }) {
  const { messages, turns } = member;
  if (!messages) return <p class="quiet">The texts of this update were not kept.</p>;
  return (
    <ol class="conversation">
      {promptOf(messages).map(({ role, content }, i) => (
        <li key={i} class={`message role-${role}`}>
          <header>
            <h3>{role}</h3>
          </header>
          <Text text={content} />
        </li>
      ))}
      {turns.map((turn) => <Turn key={turn.turn} turn={turn} />)}
    </ol>
  );
}
