/** Parses, checks and executes the calls of a turn in order; results belong to calls by index. */

import type {
  MalformedCall,
  Message,
  MessageToolCall,
  ParsedTurn,
  ToolCall,
  ToolFunction,
} from "../../core/chat.ts";
import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { CallAnswer, ToolHost } from "../tools/tool_host.ts";
import { checkCall } from "../tools/toolset.ts";
import { boundary, BoundaryFailure } from "../trajectory/boundary.ts";
import type { CallRecord } from "../trajectory/trajectory.ts";

export interface CallContext {
  host: ToolHost;
  tools: readonly ToolFunction[];
  clock: Clock;
  call_timeout_ms: number;
  signal: AbortSignal;
}

export interface AnsweredCalls {
  calls: CallRecord[];
  /** The name of the tool that ended the trajectory. */
  done_by: string | null;
  /** The call that failed; later calls were not executed. */
  broken: BoundaryFailure | null;
  /** A call has found or left the sandbox ended. */
  sandbox_lost: boolean;
}

/**
 * Executes a turn's calls one after the other, so that their effects have one order. The answer to a malformed call, an
 * unknown tool or invalid arguments says what is wrong. Calls after one that ends the trajectory are not executed.
 */
export async function answerCalls(
  turn: number,
  parsed: ParsedTurn,
  context: CallContext,
): Promise<AnsweredCalls> {
  const answered: AnsweredCalls = { calls: [], done_by: null, broken: null, sandbox_lost: false };
  for (const [index, call] of inOrder(parsed).entries()) {
    const record = newRecord(callId(turn, index), index, call);
    answered.calls.push(record);
    if (answered.done_by !== null || answered.broken) continue;
    const wrong = isMalformed(call) ? `error: ${call.reason}` : checkCall(context.tools, call);
    if (wrong !== null) {
      record.malformed = true;
      record.result = wrong;
      continue;
    }
    try {
      const { sandbox_lost = false } = await execute(record, context);
      answered.sandbox_lost ||= sandbox_lost;
    } catch (error) {
      if (!(error instanceof BoundaryFailure)) throw error;
      record.failure = error.failure;
      answered.broken = error;
    }
    if (record.done) answered.done_by = record.name;
  }
  return answered;
}

const callId = (turn: number, index: number) => `call_${turn}_${index}`;

/** All calls of a turn in the order of its text. */
function inOrder({ calls, malformed }: ParsedTurn): (ToolCall | MalformedCall)[] {
  const ordered: (ToolCall | MalformedCall)[] = [...calls];
  for (const call of malformed) ordered.splice(call.index, 0, call);
  return ordered;
}

function isMalformed(call: ToolCall | MalformedCall): call is MalformedCall {
  return "reason" in call;
}

function newRecord(id: string, index: number, call: ToolCall | MalformedCall): CallRecord {
  const malformed = isMalformed(call);
  return {
    index,
    id,
    name: malformed ? "" : call.name,
    arguments: malformed ? null : call.arguments,
    text: malformed ? call.text : null,
    malformed,
    result: null,
    reward: null,
    done: false,
    failure: null,
    exec_ms: 0,
  };
}

async function execute(record: CallRecord, context: CallContext): Promise<CallAnswer> {
  const { host, clock, signal, call_timeout_ms } = context;
  const started = clock.monotonic_ms();
  const call: ToolCall = { id: record.id, name: record.name, arguments: record.arguments! };
  try {
    const answer = await boundary(
      { name: "tool", clock, signal, timeout_ms: call_timeout_ms },
      async (inner) => checkAnswer(await host.call(call, inner).catch(blameEnvironment)),
    );
    record.result = answer.done ? answer.result : answer.result ?? "";
    record.reward = answer.reward;
    record.done = answer.done;
    return answer;
  } finally {
    record.exec_ms = clock.monotonic_ms() - started;
  }
}

/** A call may meet a failure of the environment itself, which is none of the tool. */
function blameEnvironment(error: unknown): never {
  if (!(error instanceof ServiceError) || error.code !== "environment_failed") throw error;
  const { message } = error;
  throw new BoundaryFailure({ boundary: "environment", message }, "failed", { cause: error });
}

function checkAnswer(answer: CallAnswer): CallAnswer {
  if (answer.reward === null || Number.isFinite(answer.reward)) return answer;
  throw new Error(`the reward ${answer.reward} is not a finite number`);
}

/** The assistant's message. A turn with an unreadable call keeps its full text, so that nothing is invented. */
export function assistantMessage(text: string, parsed: ParsedTurn, calls: readonly CallRecord[]): Message {
  if (parsed.malformed.length > 0) return { role: "assistant", content: text };
  const thinking = parsed.reasoning === null ? {} : { reasoning_content: parsed.reasoning };
  const message: Message = { role: "assistant", content: parsed.content, ...thinking };
  if (calls.length === 0) return message;
  const tool_calls = calls.map(({ id, name, arguments: args }): MessageToolCall => ({
    id,
    type: "function",
    function: { name, arguments: args! },
  }));
  return { ...message, tool_calls };
}

/** The results as messages, in the order of the calls. */
export function resultMessages(calls: readonly CallRecord[]): Message[] {
  return calls.filter((call) => call.result !== null).map(({ id, name, result }) => ({
    role: "tool",
    content: result!,
    tool_call_id: id,
    ...(name ? { name } : {}),
  }));
}
