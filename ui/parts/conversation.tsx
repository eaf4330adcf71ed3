/** A conversation with its tool calls, results and rewards. */

import type {
  TrajectoryCall,
  TrajectoryMember,
  TrajectoryMessage,
  TrajectoryTask,
  TrajectoryTurn,
} from "../../api/types.ts";
import { breakOf, type BreakPlace, toneOf, verificationText } from "./attempt.ts";
import { Call } from "./call.tsx";
import { Checked } from "./checked.tsx";
import { Code } from "./code.tsx";
import type { Mark } from "./difference.ts";
import { millisecondsText, numberText } from "./format.ts";

/** What of a turn is marked as its first difference from another attempt's. */
export interface Parting {
  /** In the model's text. */
  text: Mark | null;
  /** In the result of the call with this index. */
  result: { index: number; mark: Mark } | null;
}

export function Reward({ value }: { value: number | null }) {
  if (value === null || value === 0) return null;
  return (
    <span class={value > 0 ? "reward good" : "reward bad"}>
      {value > 0 && "+"}
      {numberText(value)}
    </span>
  );
}

function RecordedCall(
  { call, mark, is_open }: { call: TrajectoryCall; mark: Mark | null; is_open: boolean },
) {
  const { name, arguments: given, text, malformed, result, reward, failure, exec_ms } = call;
  const is_bad = malformed || failure !== null;
  return (
    <Call
      {...{ name: malformed ? "malformed call" : name, given, text, is_bad }}
      is_open={is_open || is_bad || mark !== null}
      facts={
        <>
          <Reward value={reward} />
          <span class="quiet">{millisecondsText(exec_ms)}</span>
        </>
      }
    >
      {result !== null && (
        <div class="result">
          <h4>result</h4>
          <Code text={result} mark={mark} />
        </div>
      )}
      {failure && <p class="field-error">{failure.boundary} failed: {failure.message}</p>}
    </Call>
  );
}

/** Where an attempt broke: everything before it is as it should be. */
function Broke({ member: { failure, attribution } }: { member: TrajectoryMember }) {
  return (
    <p class="broke" role="note">
      <strong>✕ It broke here.</strong> {failure!.boundary} failed: {failure!.message}
      {attribution && <span class="quiet">attributed to the {attribution}</span>}
    </p>
  );
}

export interface TurnProps {
  member: TrajectoryMember;
  turn: TrajectoryTurn;
  /** What the model said, apart from its calls; null where the record has only the text with its calls. */
  answer: TrajectoryMessage | null;
  parting?: Parting | null;
  /** Whether the calls are shown with their arguments and results. */
  is_open?: boolean;
  /** "in both". */
  remark?: string;
}

export function Turn({ member, turn, answer, parting = null, is_open = false, remark }: TurnProps) {
  const broken = breakOf(member), said = answer ? answer.content : turn.text ?? "";
  const thoughts = answer?.reasoning_content;
  return (
    <article class={parting ? "turn parts" : "turn"}>
      <header>
        <h3>Turn {turn.turn + 1}</h3>
        {parting && <span class="tag">first difference</span>}
        {remark && <span class="tag">{remark}</span>}
        <Reward value={turn.reward} />
        {turn.advantage !== null && <span class="quiet">advantage {numberText(turn.advantage)}</span>}
        <span class="quiet">
          {turn.start !== null && turn.end !== null && `${turn.end - turn.start} tokens · `}
          {millisecondsText(turn.generate_ms + turn.tools_ms)}
        </span>
      </header>
      {thoughts && (
        <details class="thinking">
          <summary>Thinking, {thoughts.length.toLocaleString("en")} characters</summary>
          <Code text={thoughts} />
        </details>
      )}
      {said.trim() !== "" && <Code text={said} mark={answer ? null : parting?.text ?? null} />}
      {turn.calls?.map((call) => (
        <RecordedCall
          key={call.index}
          call={call}
          is_open={is_open}
          mark={parting?.result?.index === call.index ? parting.result.mark : null}
        />
      ))}
      {answer && turn.text !== null && (
        <details class="raw" open={(parting?.text ?? null) !== null}>
          <summary>As the model wrote it</summary>
          <Code text={turn.text} mark={parting?.text ?? null} />
        </details>
      )}
      {broken?.place === "turn" && broken.turn === turn.turn && <Broke member={member} />}
    </article>
  );
}

/** Where an attempt broke outside of its turns. */
export function BrokeAt({ member, place }: { member: TrajectoryMember; place: BreakPlace }) {
  return breakOf(member)?.place === place ? <Broke member={member} /> : null;
}

/** What the model was given before its first turn, and what it answered in each turn. */
export interface Split {
  prompt: readonly TrajectoryMessage[];
  /** Empty where the messages do not have one answer for each turn. */
  answers: readonly TrajectoryMessage[];
}

/** Splits a conversation: its last answers are those of its turns, earlier ones are part of the prompt. */
export function splitOf(messages: readonly TrajectoryMessage[], turns: number): Split {
  const answered = messages.flatMap(({ role }, i) => role === "assistant" ? [i] : []);
  if (answered.length < turns) {
    const first = answered[0] ?? messages.length;
    return { prompt: messages.slice(0, first), answers: [] };
  }
  const own = answered.slice(answered.length - turns);
  return { prompt: messages.slice(0, own[0] ?? messages.length), answers: own.map((i) => messages[i]!) };
}

export function Prompt({ messages }: { messages: readonly TrajectoryMessage[] }) {
  return (
    <>
      {messages.map(({ role, content }, i) => (
        <article key={i} class={`message role-${role}`}>
          <header>
            <h3>{role}</h3>
          </header>
          <Code text={content} />
        </article>
      ))}
    </>
  );
}

/** How an attempt was graded, with the judge's reasons. */
export function Grading({ member }: { member: TrajectoryMember }) {
  const { verification, judge, terminal_reward } = member, is_broken = breakOf(member)?.place === "grading";
  if (!verification && !judge && terminal_reward === null && !is_broken) return null;
  return (
    <article class="grading">
      <header>
        <h3>Grade</h3>
        <span class={`reward ${toneOf(member)}`}>{numberText(terminal_reward)}</span>
      </header>
      {verification && (
        <>
          <p>
            The verification {verificationText(verification)}.
            {verification.tampered && " The attempt had changed a protected file, which was undone."}
          </p>
          {verification.output && <Code text={verification.output} />}
        </>
      )}
      {judge && (
        <>
          <p>
            The judge gave <strong>{numberText(judge.score)}</strong>.
          </p>
          {judge.explanation && <Code text={judge.explanation} />}
        </>
      )}
      <BrokeAt member={member} place="grading" />
    </article>
  );
}

interface ConversationProps {
  member: TrajectoryMember;
  /** Null where it is not known. */
  task?: TrajectoryTask | null;
  is_open?: boolean;
}

/** A whole attempt. */
export function Conversation({ member, task = null, is_open = false }: ConversationProps) {
  const { messages, turns } = member, { prompt, answers } = splitOf(messages ?? [], turns.length);
  return (
    <div class="conversation">
      {!messages && <p class="quiet">The texts of this update were not kept.</p>}
      <Prompt messages={prompt} />
      <BrokeAt member={member} place="start" />
      {turns.map((turn, i) => (
        <Turn key={turn.turn} member={member} turn={turn} answer={answers[i] ?? null} is_open={is_open} />
      ))}
      <BrokeAt member={member} place="end" />
      {task && <Checked task={task} />}
      <Grading member={member} />
    </div>
  );
}
