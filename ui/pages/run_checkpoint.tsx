/** Evaluating a checkpoint. `run_try.tsx` asks it, and `run_fork.tsx` continues it as another run. */

import { useState } from "preact/hooks";
import type { EvaluationResult, Rate, Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { useAction } from "../parts/actions.ts";
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

/** `62.5 % (48 to 75 %)`. */
export function rateText({ rate, low, high }: Rate): string {
  const percent = (value: number) => numberText(Math.round(1000 * value) / 10);
  return `${percent(rate)} % (${percent(low)} to ${percent(high)} %)`;
}

/** The score of an evaluation: a pass rate with its interval, or a loss. */
export function scoreText({ pass_rate, loss }: Pick<EvaluationResult, "pass_rate" | "loss">): string {
  return pass_rate ? rateText(pass_rate) : `loss ${numberText(loss)}`;
}

/** The fields of the form by pointer. */
const EVALUATE_FIELDS = { "/limit": "At most so many examples" };

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
