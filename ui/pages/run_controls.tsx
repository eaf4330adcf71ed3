/** What can be done with a run in its state. */

import { useState } from "preact/hooks";
import type { EvaluationResult, Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { useAction } from "../parts/actions.ts";
import { ProblemBox } from "../parts/problem.tsx";
import { hrefOf } from "../routes.ts";
import { scoreText } from "./run_checkpoint.tsx";

type State = Run["state"];

const PAUSABLE: ReadonlySet<State> = new Set(["running"]);
const RESUMABLE: ReadonlySet<State> = new Set(["paused", "interrupted"]);
const CANCELLABLE: ReadonlySet<State> = new Set([
  "queued",
  "starting",
  "running",
  "pausing",
  "paused",
  "interrupted",
]);
const COMMANDABLE: ReadonlySet<State> = new Set(["running", "paused"]);
const EVALUABLE: ReadonlySet<State> = new Set([...COMMANDABLE, "completed"]);

/** The learning rate that a run's configuration has, or null. */
function rateOf({ config, last_metrics }: Run): number | null {
  const training = config.training as { lr?: number } | undefined;
  return last_metrics["optimizer/learning_rate"] ?? training?.lr ?? null;
}

function RateForm({ run, is_off, onSet }: { run: Run; is_off: boolean; onSet(lr: number): void }) {
  const current = rateOf(run), [text, setText] = useState<string | null>(null);
  const lr = Number(text ?? "");
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        onSet(lr);
        setText(null);
      }}
    >
      <label class="field">
        <span>Learning rate</span>
        <input
          inputMode="decimal"
          size={9}
          disabled={is_off}
          value={text ?? (current === null ? "" : String(current))}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={is_off || text === null || !(lr > 0)}>Set</button>
    </form>
  );
}

export function RunControls({ run, onChange }: { run: Run; onChange(): void }) {
  const { api } = useClient(), action = useAction(), { id, state } = run, params = { id };
  const command = (work: () => Promise<unknown>) => action.start(() => work().then(onChange));
  const [result, setResult] = useState<EvaluationResult | null>(null);
  const cancel = () =>
    command(() => api.call("POST /v1/runs/{id}/cancel", { params, body: { checkpoint: true } }));
  return (
    <section class="controls" aria-label="controls">
      <button
        type="button"
        disabled={!PAUSABLE.has(state) || action.is_busy}
        onClick={() => command(() => api.call("POST /v1/runs/{id}/pause", { params }))}
      >
        Pause
      </button>
      <button
        type="button"
        disabled={!RESUMABLE.has(state) || action.is_busy}
        onClick={() => command(() => api.call("POST /v1/runs/{id}/resume", { params }))}
      >
        Resume
      </button>
      <button
        type="button"
        disabled={!COMMANDABLE.has(state) || action.is_busy}
        onClick={() => command(() => api.call("POST /v1/runs/{id}/checkpoints", { params }))}
      >
        Checkpoint
      </button>
      <button
        type="button"
        disabled={!EVALUABLE.has(state) || action.is_busy}
        onClick={() => command(() => api.call("POST /v1/runs/{id}/evaluate", { params }).then(setResult))}
      >
        Evaluate
      </button>
      <button
        type="button"
        class="danger"
        disabled={!CANCELLABLE.has(state) || action.is_busy}
        onClick={cancel}
      >
        Cancel
      </button>
      <a class="button" href={hrefOf(["new"], { from: id })}>Start another like this</a>
      <p class="control-result" role="status">{result && `Held-out: ${scoreText(result)}`}</p>
      <RateForm
        run={run}
        is_off={!COMMANDABLE.has(state)}
        onSet={(lr) => command(() => api.call("PATCH /v1/runs/{id}", { params, body: { training: { lr } } }))}
      />
      {action.error !== null && <ProblemBox error={action.error} onClose={action.clear} />}
    </section>
  );
}
