/** What can be done with a checkpoint: evaluating it, trying it, and continuing it as another run. */

import { useRef, useState } from "preact/hooks";
import type { EvaluationResult, Fork, Generation, Rate, Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { useAction } from "../parts/actions.ts";
import { Code } from "../parts/code.tsx";
import { Facts } from "../parts/facts.tsx";
import { numberText } from "../parts/format.ts";
import { ProblemBox } from "../parts/problem.tsx";
import { TextField } from "../parts/text_field.tsx";
import { hrefOf } from "../routes.ts";

interface FormProps {
  run: Run;
  checkpoint: string;
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

/** The whole number that was typed; null for none. */
function wholeOf(text: string): number | null {
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : null;
}

/** The body of a fork: what is left empty stays as it is in the run. */
export function forkOf(
  { run, checkpoint }: { run: Pick<Run, "id">; checkpoint: string },
  given: { name: string; updates: string; lr: string },
): Fork {
  const updates = wholeOf(given.updates), lr = Number(given.lr), name = given.name.trim();
  return {
    fork_from: { run: run.id, checkpoint },
    ...(name !== "" && { name }),
    ...(updates !== null && { budget: { updates } }),
    ...(given.lr.trim() !== "" && lr > 0 && { params: { "training.lr": lr } }),
  };
}

export function EvaluateForm({ run: { id }, checkpoint }: FormProps) {
  const { api } = useClient(), action = useAction(), [limit, setLimit] = useState("");
  const [result, setResult] = useState<EvaluationResult | null>(null), most = wholeOf(limit);
  const submit = (event: Event) => {
    event.preventDefault();
    const body = { checkpoint, ...(most !== null && { limit: most }) };
    action.start(() => api.call("POST /v1/runs/{id}/evaluate", { params: { id }, body }).then(setResult));
  };
  return (
    <form class="checkpoint-form" aria-label={`evaluate ${checkpoint}`} onSubmit={submit}>
      <h3>Evaluate {checkpoint} on the held-out data</h3>
      <div class="inline">
        <TextField
          label="At most so many examples"
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
      {action.error !== null && <ProblemBox error={action.error} />}
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

export function TryForm({ run: { id }, checkpoint }: FormProps) {
  const { api } = useClient(), action = useAction(), [text, setText] = useState("");
  const [temperature, setTemperature] = useState("0"), [tokens, setTokens] = useState(String(TRIED_TOKENS));
  const [has_base, setBase] = useState(false), [answers, setAnswers] = useState<readonly Answer[]>([]);
  const submit = (event: Event) => {
    event.preventDefault();
    const ask = async (label: string, adapter: boolean) => {
      const body = {
        messages: [{ role: "user" as const, content: text }],
        max_new_tokens: wholeOf(tokens) ?? TRIED_TOKENS,
        temperature: Number(temperature),
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
        <TextField label="Temperature" value={temperature} onText={setTemperature} kind="decimal" size={5} />
        <TextField label="Most tokens" value={tokens} onText={setTokens} kind="numeric" size={6} />
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
      {action.error !== null && <ProblemBox error={action.error} />}
      <div class="answers" role="status">
        {answers.map((answer) => <AnswerView key={answer.label} answer={answer} />)}
      </div>
    </form>
  );
}

/** 32 random hexadecimal digits, also where the page came over plain HTTP. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}

export function ForkForm({ run, checkpoint }: FormProps) {
  const { api } = useClient(), action = useAction();
  const [given, setGiven] = useState({ name: `${run.name} (fork)`, updates: "", lr: "" });
  const intent = useRef({ text: "", key: "" });
  const set = (name: keyof typeof given) => (text: string) => setGiven({ ...given, [name]: text });
  const submit = (event: Event) => {
    event.preventDefault();
    const body = forkOf({ run, checkpoint }, given), text = JSON.stringify(body);
    // One key for one intent: a request that is repeated makes one run.
    if (intent.current.text !== text) intent.current = { text, key: randomKey() };
    const headers = { "idempotency-key": intent.current.key };
    action.start(async () => {
      const { id } = await api.call("POST /v1/runs", { body, headers });
      location.assign(hrefOf(["runs", id]));
    });
  };
  return (
    <form class="checkpoint-form" aria-label={`fork ${checkpoint}`} onSubmit={submit}>
      <h3>Continue {checkpoint} as another run</h3>
      <div class="inline">
        <TextField label="Name" value={given.name} onText={set("name")} required />
        <TextField
          label="Updates in all"
          value={given.updates}
          onText={set("updates")}
          kind="numeric"
          size={8}
          placeholder={run.progress.updates === null ? "" : String(run.progress.updates)}
        />
        <TextField
          label="Learning rate"
          value={given.lr}
          onText={set("lr")}
          kind="decimal"
          size={9}
          placeholder="as it is"
        />
        <button type="submit" class="primary" aria-disabled={action.is_busy}>Fork</button>
      </div>
      {action.error !== null && <ProblemBox error={action.error} />}
    </form>
  );
}
