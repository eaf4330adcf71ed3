/** Asking a checkpoint a question, with what the attempts of its run had: tools, and a system message. */

import { useState } from "preact/hooks";
import type { Generate, Generation } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { type RunTools, toolsOfRun } from "../client/run_tools.ts";
import { useLoad } from "../client/use_call.ts";
import { useAction } from "../parts/actions.ts";
import { Call } from "../parts/call.tsx";
import { Code } from "../parts/code.tsx";
import { TextField } from "../parts/text_field.tsx";
import { typedValues } from "../parts/typed.ts";
import type { CheckpointFormProps } from "./run_checkpoint.tsx";
import { FormProblem, type Refusals, useRefusals } from "./run_form_problem.tsx";

/** What is asked, as it is written. */
export interface Question {
  text: string;
  /** Null: the run's own. */
  system: string | null;
  temperature: string;
  tokens: string;
  has_tools: boolean;
  has_base: boolean;
}

/** The tokens are those of an answer, unless another number is given. */
const NOTHING_ASKED: Question = {
  ...{ text: "", system: null, temperature: "0", tokens: "256", has_tools: true, has_base: false },
};

/** The fields of the form by pointer. */
const FIELDS = { "/temperature": "Temperature", "/max_new_tokens": "Most tokens" };

/** What a request has when its fields are numbers. */
type Numbers = Pick<Generate, "max_new_tokens" | "temperature">;

/** The request of a question, without who answers it. What is not a number is the server's to refuse. */
export function requestOf(question: Question, given: Pick<RunTools, "tools" | "system">): Generate {
  const { text, temperature, tokens, has_tools } = question, system = question.system ?? given.system;
  return {
    messages: [
      ...(system.trim() === "" ? [] : [{ role: "system" as const, content: system }]),
      { role: "user", content: text },
    ],
    ...(has_tools && given.tools.length > 0 && { tools: given.tools }),
    ...typedValues({ max_new_tokens: tokens, temperature }) as Numbers,
    top_p: 1,
  };
}

/** An answer with what it was made by. */
interface Answer {
  label: string;
  generation: Generation;
}

function AnswerView({ answer: { label, generation: { message, stop_reason, usage } } }: { answer: Answer }) {
  return (
    <article class="answer">
      <h4>{label}</h4>
      {message.content !== "" && <Code text={message.content} />}
      {message.tool_calls?.map(({ id, function: { name, arguments: given } }) => (
        <Call key={id} name={name} given={given} />
      ))}
      <p class="quiet">
        {usage.completion_tokens} tokens{stop_reason === "length" && ", cut at the limit"}
      </p>
    </article>
  );
}

interface FieldsProps {
  question: Question;
  offered: RunTools | null;
  refusals: Refusals;
  onChange(question: Partial<Question>): void;
}

function Texts({ question: { text, system, has_tools }, offered, onChange }: FieldsProps) {
  return (
    <>
      <label class="field">
        <span>System message</span>
        <input
          value={system ?? offered?.system ?? ""}
          onInput={({ currentTarget }) => onChange({ system: currentTarget.value })}
        />
      </label>
      <label class="field">
        <span>Message</span>
        <textarea
          rows={3}
          required
          value={text}
          onInput={({ currentTarget }) => onChange({ text: currentTarget.value })}
        />
      </label>
      {offered && offered.names.length > 0 && (
        <label class="check">
          <input
            type="checkbox"
            checked={has_tools}
            onChange={({ currentTarget }) => onChange({ has_tools: currentTarget.checked })}
          />
          with the tools of the run, which are not executed: {offered.names.join(", ")}
        </label>
      )}
    </>
  );
}

function Settings({ question: { temperature, tokens, has_base }, refusals, onChange }: FieldsProps) {
  return (
    <>
      <TextField
        {...{ label: FIELDS["/temperature"], refused_by: refusals.by("/temperature") }}
        {...{ value: temperature, onText: (temperature) => onChange({ temperature }) }}
        {...{ kind: "decimal", size: 5 }}
      />
      <TextField
        {...{ label: FIELDS["/max_new_tokens"], refused_by: refusals.by("/max_new_tokens") }}
        {...{ value: tokens, onText: (tokens) => onChange({ tokens }), kind: "numeric", size: 6 }}
      />
      <label class="check">
        <input
          type="checkbox"
          checked={has_base}
          onChange={({ currentTarget }) => onChange({ has_base: currentTarget.checked })}
        />
        beside the base model
      </label>
    </>
  );
}

export function TryForm({ run: { id }, checkpoint }: CheckpointFormProps) {
  const { api } = useClient(), action = useAction(), refusals = useRefusals(action.error, FIELDS);
  const offered = useLoad((api, signal) => toolsOfRun(api, id, signal), id);
  // Without an answer it can be tried without tools.
  const is_busy = action.is_busy || (offered.value === null && offered.error === null);
  const [question, setQuestion] = useState(NOTHING_ASKED),
    [answers, setAnswers] = useState<readonly Answer[]>([]);
  const fields: FieldsProps = {
    ...{ question, refusals, offered: offered.value },
    onChange: (changed) => setQuestion((before) => ({ ...before, ...changed })),
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (is_busy) return;
    const request = requestOf(question, offered.value ?? { tools: [], system: "" });
    const ask = async (label: string, adapter: boolean) => {
      const body = { ...request, adapter, ...(adapter && { checkpoint }) };
      const generation = await api.call("POST /v1/runs/{id}/generate", { params: { id }, body });
      setAnswers((before) => [...before, { label, generation }]);
    };
    setAnswers([]);
    action.start(async () => {
      await ask(checkpoint, true);
      if (question.has_base) await ask("base model", false);
    });
  };
  return (
    <form class="checkpoint-form" aria-label={`try ${checkpoint}`} onSubmit={submit}>
      <h3>Try {checkpoint}</h3>
      <Texts {...fields} />
      <div class="inline">
        <Settings {...fields} />
        <button type="submit" class="primary" aria-disabled={is_busy}>
          {action.is_busy ? "Answering …" : "Ask"}
        </button>
      </div>
      <FormProblem refusals={refusals} error={action.error} />
      <div class="answers" role="status">
        {answers.map((answer) => <AnswerView key={answer.label} answer={answer} />)}
      </div>
    </form>
  );
}
