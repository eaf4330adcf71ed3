/** What can be done with a checkpoint: evaluating and trying it. `run_fork.tsx` continues it as another run. */

import { useState } from "preact/hooks";
import type { EvaluationResult, Generate, Generation, Rate, Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { useAction } from "../parts/actions.ts";
import { Code } from "../parts/code.tsx";
import { Facts } from "../parts/facts.tsx";
import { numberText } from "../parts/format.ts";
import { TextField } from "../parts/text_field.tsx";
import { typedValues } from "../parts/typed.ts";
import { FormProblem, useRefusals } from "./run_form_problem.tsx";

export interface CheckpointFormProps {
  run: Run;
  /** Its name. */
  checkpoint: string;
  /** Its updates. */
  update: number;
}

/** Tokens of an answer that is tried, unless another number is given. */
const TRIED_TOKENS = 256;

/** `62.5 % (48 to 75 %)`. */
export function rateText({ rate, low, high }: Rate): string {
  const percent = (value: number) => numberText(Math.round(1000 * value) / 10);
  return `${percent(rate)} % (${percent(low)} to ${percent(high)} %)`;
}

/** The score of an evaluation: a pass rate with its interval, or a loss. */
export function scoreText({ pass_rate, loss }: Pick<EvaluationResult, "pass_rate" | "loss">): string {
  return pass_rate ? rateText(pass_rate) : `loss ${numberText(loss)}`;
}

/** The fields of the forms by pointer. */
const EVALUATE_FIELDS = { "/limit": "At most so many examples" };
const TRY_FIELDS = { "/temperature": "Temperature", "/max_new_tokens": "Most tokens" };

export function EvaluateForm({ run: { id }, checkpoint }: CheckpointFormProps) {
  const { api } = useClient(), action = useAction(), [limit, setLimit] = useState("");
  const [result, setResult] = useState<EvaluationResult | null>(null);
  const refusals = useRefusals(action.error, EVALUATE_FIELDS);
  const submit = (event: Event) => {
    event.preventDefault();
    // What is not a number is the server's to refuse.
    const body = { checkpoint, ...typedValues({ limit }) };
    action.start(() => api.call("POST /v1/runs/{id}/evaluate", { params: { id }, body }).then(setResult));
  };
  return (
    <form class="checkpoint-form" aria-label={`evaluate ${checkpoint}`} onSubmit={submit}>
      <h3>Evaluate {checkpoint} on the held-out data</h3>
      <div class="inline">
        <TextField
          label={EVALUATE_FIELDS["/limit"]}
          refused_by={refusals.by("/limit")}
          value={limit}
          onText={setLimit}
          kind="numeric"
          size={8}
          placeholder="all"
        />
        <button type="submit" class="primary" aria-disabled={action.is_busy}>
          {action.is_busy ? "Evaluating …" : "Evaluate"}
        </button>
      </div>
      <FormProblem refusals={refusals} error={action.error} />
      {result && (
        <Facts
          is_small
          facts={[
            result.pass_rate ? ["Passed", rateText(result.pass_rate)] : ["Loss", numberText(result.loss)],
            result.pass_rate
              ? ["Reward", numberText(result.reward_mean)]
              : ["Perplexity", numberText(result.perplexity)],
            ["Examples", String(result.pass_rate?.n ?? result.rows?.n ?? "–")],
            ["Failed", String(Object.values(result.failed).reduce((sum, n) => sum + n, 0))],
          ]}
        />
      )}
    </form>
  );
}

/** What a request has when its fields are numbers. */
type Numbers = Pick<Generate, "max_new_tokens" | "temperature">;

/** An answer with what it was made by. */
interface Answer {
  label: string;
  generation: Generation;
}

function AnswerView({ answer: { label, generation: { message, stop_reason, usage } } }: { answer: Answer }) {
  return (
    <article class="answer">
      <h4>{label}</h4>
      <Code text={message.content} />
      {message.tool_calls?.map(({ id, function: { name, arguments: given } }) => (
        <div key={id} class="call">
          <code>{name}</code>
          <Code text={JSON.stringify(given, null, 2)} />
        </div>
      ))}
      <p class="quiet">
        {usage.completion_tokens} tokens{stop_reason === "length" && ", cut at the limit"}
      </p>
    </article>
  );
}

export function TryForm({ run: { id }, checkpoint }: CheckpointFormProps) {
  const { api } = useClient(), action = useAction(), [text, setText] = useState("");
  const [temperature, setTemperature] = useState("0"), [tokens, setTokens] = useState(String(TRIED_TOKENS));
  const refusals = useRefusals(action.error, TRY_FIELDS);
  const [has_base, setBase] = useState(false), [answers, setAnswers] = useState<readonly Answer[]>([]);
  const submit = (event: Event) => {
    event.preventDefault();
    const ask = async (label: string, adapter: boolean) => {
      const body = {
        messages: [{ role: "user" as const, content: text }],
        ...typedValues({ max_new_tokens: tokens, temperature }) as Numbers,
        top_p: 1,
        adapter,
        ...(adapter && { checkpoint }),
      };
      const generation = await api.call("POST /v1/runs/{id}/generate", { params: { id }, body });
      setAnswers((before) => [...before, { label, generation }]);
    };
    setAnswers([]);
    action.start(async () => {
      await ask(checkpoint, true);
      if (has_base) await ask("base model", false);
    });
  };
  return (
    <form class="checkpoint-form" aria-label={`try ${checkpoint}`} onSubmit={submit}>
      <h3>Try {checkpoint}</h3>
      <label class="field">
        <span>Message</span>
        <textarea
          rows={3}
          required
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <div class="inline">
        <TextField
          {...{ label: TRY_FIELDS["/temperature"], refused_by: refusals.by("/temperature") }}
          {...{ value: temperature, onText: setTemperature, kind: "decimal", size: 5 }}
        />
        <TextField
          {...{ label: TRY_FIELDS["/max_new_tokens"], refused_by: refusals.by("/max_new_tokens") }}
          {...{ value: tokens, onText: setTokens, kind: "numeric", size: 6 }}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={has_base}
            onChange={({ currentTarget }) => setBase(currentTarget.checked)}
          />
          beside the base model
        </label>
        <button type="submit" class="primary" aria-disabled={action.is_busy}>
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
