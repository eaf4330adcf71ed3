/** What can be done with a run in its state. */

import { useRef, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { useAction } from "../parts/actions.ts";
import { AskTwice, CommandButton } from "../parts/command_button.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { hrefOf } from "../routes.ts";
import { scoreText } from "./run_checkpoint.tsx";
import { cancelNote, type Command, isOffered } from "./run_commands.ts";
import { DetailsForm } from "./run_details.tsx";

/** A learning rate that the server accepted, and the updates that were done then. */
interface AcceptedRate {
  lr: number;
  update: number;
}

/** The learning rate of a run's next update, or null. */
export function rateOf(
  { config, last_metrics, progress }: Pick<Run, "config" | "last_metrics" | "progress">,
  accepted: AcceptedRate | null,
): number | null {
  // The metrics have the rate of the last update.
  if (accepted && progress.update <= accepted.update) return accepted.lr;
  const training = config.training as { lr?: number } | undefined;
  return last_metrics["optimizer/learning_rate"] ?? training?.lr ?? null;
}

function RateForm({ rate, is_off, is_busy, onSet }: {
  rate: number | null;
  is_off: boolean;
  is_busy: boolean;
  onSet(lr: number): void;
}) {
  const [text, setText] = useState<string | null>(null);
  const lr = Number(text ?? ""), is_useless = is_off || is_busy || text === null || !(lr > 0);
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        if (is_useless) return;
        onSet(lr);
        setText(null);
      }}
    >
      <label class="field">
        <span>Learning rate</span>
        <input
          inputMode="decimal"
          size={9}
          readOnly={is_off}
          value={text ?? (rate === null ? "" : String(rate))}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <button type="submit" aria-disabled={is_useless}>Set</button>
    </form>
  );
}

/** The commands of a run, with what the last one said and why one failed. */
function useCommands(run: Run, onChange: () => Promise<unknown>) {
  const { api } = useClient(), action = useAction(), params = { id: run.id };
  // An evaluation may take minutes, in which a run can be paused or cancelled.
  const evaluation = useAction();
  const [said, say] = useState(""), [rate, setRate] = useState<AcceptedRate | null>(null);
  const start = (work: () => Promise<unknown>) => action.start(() => work().then(onChange));
  const { state, progress: { update } } = run;
  return {
    ...{ said, rate, is_busy: action.is_busy, error: action.error ?? evaluation.error },
    clear: () => (action.clear(), evaluation.clear()),
    isOff: (command: Command) =>
      (command === "evaluate" ? evaluation : action).is_busy || !isOffered(command, state),
    pause: () => start(() => api.call("POST /v1/runs/{id}/pause", { params })),
    resume: () => start(() => api.call("POST /v1/runs/{id}/resume", { params })),
    checkpoint: () => start(() => api.call("POST /v1/runs/{id}/checkpoints", { params })),
    evaluate: () =>
      evaluation.start(async () => {
        say("Evaluating …");
        let score = "";
        try {
          score = `Held-out: ${scoreText(await api.call("POST /v1/runs/{id}/evaluate", { params }))}`;
          await onChange();
        } finally {
          say(score);
        }
      }),
    cancel: () => {
      const body = state === "stopping"
        ? { at: "now", checkpoint: false } as const
        : { at: "boundary", checkpoint: true } as const;
      start(() => api.call("POST /v1/runs/{id}/cancel", { params, body }));
    },
    setRate: (lr: number) =>
      start(async () => {
        await api.call("PATCH /v1/runs/{id}", { params, body: { training: { lr } } });
        setRate({ lr, update });
        say(`Learning rate ${lr} from the next update`);
      }),
    remove: () =>
      action.start(async () => {
        await api.call("DELETE /v1/runs/{id}", { params });
        location.assign(hrefOf(["runs"]));
      }),
  };
}

export function RunControls({ run, onChange }: { run: Run; onChange(): Promise<unknown> }) {
  const { id, state, name } = run, commands = useCommands(run, onChange), { isOff } = commands;
  const [is_edited, setEdited] = useState(false), edit = useRef<HTMLButtonElement>(null);
  const close = () => {
    setEdited(false);
    edit.current?.focus();
  };
  return (
    <section class="controls" aria-label="controls">
      <CommandButton is_off={isOff("pause")} onClick={commands.pause}>Pause</CommandButton>
      <CommandButton is_off={isOff("resume")} onClick={commands.resume}>Resume</CommandButton>
      <CommandButton is_off={isOff("checkpoint")} onClick={commands.checkpoint}>Checkpoint</CommandButton>
      <CommandButton is_off={isOff("evaluate")} onClick={commands.evaluate}>Evaluate</CommandButton>
      <AskTwice
        label={state === "stopping" ? "Stop now" : "Cancel …"}
        sure="Cancel for good"
        keep="Let it be"
        note={cancelNote(run)}
        is_off={isOff("cancel")}
        at_once={state === "stopping"}
        onSure={commands.cancel}
      />
      <a class="button" href={hrefOf(["new"], { from: id })}>Start another like this</a>
      <button ref={edit} type="button" aria-expanded={is_edited} onClick={() => setEdited(!is_edited)}>
        Edit
      </button>
      <AskTwice
        label="Delete …"
        sure={`Delete “${name}” for good`}
        keep="Keep it"
        is_off={isOff("delete")}
        onSure={commands.remove}
      />
      <p class="control-result" role="status">{commands.said}</p>
      <RateForm
        rate={rateOf(run, commands.rate)}
        is_off={!isOffered("set_lr", state)}
        is_busy={commands.is_busy}
        onSet={commands.setRate}
      />
      {is_edited && <DetailsForm run={run} onSaved={onChange} onClose={close} />}
      {commands.error !== null && <ProblemBox error={commands.error} onClose={commands.clear} />}
    </section>
  );
}
