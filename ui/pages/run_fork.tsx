/** A checkpoint continued as another run, with the server's plan of it while it is written. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Fork, Plan, Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { Planner } from "../client/planner.ts";
import { planRun, RunStarter } from "../client/run_request.ts";
import { type Fact, Facts } from "../parts/facts.tsx";
import { bytesText, durationText } from "../parts/format.ts";
import { TextField } from "../parts/text_field.tsx";
import { typedValues } from "../parts/typed.ts";
import { hrefOf } from "../routes.ts";
import type { CheckpointFormProps } from "./run_checkpoint.tsx";
import { FormProblem, useRefusals } from "./run_form_problem.tsx";

/** The body of a fork: what is left empty stays as it is in the run. What is no value is the server's to refuse. */
export function forkOf(
  { run, checkpoint }: { run: Pick<Run, "id">; checkpoint: string },
  given: { name: string; updates: string; lr: string },
): Fork {
  const name = given.name.trim(), budget = typedValues({ updates: given.updates });
  const params = typedValues({ "training.lr": given.lr });
  return {
    fork_from: { run: run.id, checkpoint },
    ...(name !== "" && { name }),
    ...("updates" in budget && { budget }),
    ...("training.lr" in params && { params }),
  };
}

/** What a fork trains. @param done The updates of its checkpoint. @param updates All of them; null: as many as fit. */
export function trainedText(done: number, updates: number | null): string {
  if (updates === null) return `from update ${done + 1} on, as long as its time allows`;
  if (updates <= done) return `nothing: the checkpoint has all ${updates} updates`;
  return updates === done + 1 ? `update ${updates}` : `updates ${done + 1} to ${updates}`;
}

/** The fields by pointer. */
const FIELDS = {
  "/name": "Name",
  "/budget/updates": "Updates in all",
  "/params/training.lr": "Learning rate",
};

function factsOf({ schedule, memory }: Plan, update: number): Fact[] {
  const { eta_seconds } = schedule;
  return [
    ["It trains", trainedText(update, schedule.updates)],
    ["The run takes", eta_seconds === null ? "not measured" : durationText(eta_seconds)],
    ["Memory on the device", bytesText(memory.peak_bytes)],
  ];
}

function ForkPlan({ plan, update }: { plan: Plan; update: number }) {
  return (
    <>
      <Facts is_small facts={factsOf(plan, update)} />
      <ul class="warnings">
        {plan.warnings.map(({ code, field, message }) => (
          <li key={`${code} ${field}`}>
            {field !== undefined && <code>{field}</code>} {message}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Plans a fork whenever it changes, and starts it. */
function useFork(recipe: Fork) {
  const { api } = useClient(), [is_starting, setStarting] = useState(false);
  const planner = useMemo(() => new Planner((request, options) => planRun(api, request, options)), [api]);
  const starter = useMemo(() => new RunStarter(api), [api]);
  useEffect(() => () => planner.close(), [planner]);
  useEffect(() => planner.want({ recipe }), [planner, JSON.stringify(recipe)]);
  const start = (event: Event) => {
    event.preventDefault();
    if (is_starting) return;
    setStarting(true);
    starter.start({ recipe }).then(({ id }) => location.assign(hrefOf(["runs", id])), (error) => {
      planner.refuse({ recipe }, error);
      setStarting(false);
    });
  };
  return { planned: planner.state.value, start, is_starting };
}

export function ForkForm({ run, checkpoint, update }: CheckpointFormProps) {
  const [given, setGiven] = useState({ name: `${run.name} (fork)`, updates: "", lr: "" });
  const [has_tried, setTried] = useState(false);
  const { planned: { plan, error }, start, is_starting } = useFork(forkOf({ run, checkpoint }, given));
  const refusals = useRefusals(error, FIELDS);
  const field = (pointer: keyof typeof FIELDS, name: keyof typeof given) => ({
    label: FIELDS[pointer],
    refused_by: refusals.by(pointer),
    value: given[name],
    onText: (text: string) => {
      setTried(false);
      setGiven({ ...given, [name]: text });
    },
  });
  return (
    <form
      class="checkpoint-form"
      aria-label={`fork ${checkpoint}`}
      onSubmit={(event) => (setTried(true), start(event))}
    >
      <h3>Continue {checkpoint} as another run</h3>
      <div class="inline">
        <TextField {...field("/name", "name")} required />
        <TextField
          {...field("/budget/updates", "updates")}
          kind="numeric"
          size={8}
          placeholder={run.progress.updates === null ? "" : String(run.progress.updates)}
        />
        <TextField {...field("/params/training.lr", "lr")} kind="decimal" size={9} placeholder="as it is" />
        <button type="submit" class="primary" aria-disabled={is_starting}>
          {is_starting ? "Starting …" : "Fork"}
        </button>
      </div>
      <FormProblem refusals={refusals} error={error} keeps_focus={!has_tried || is_starting} />
      <div class="fork-plan" role="group" aria-label="plan of the fork">
        {error === null &&
          (plan ? <ForkPlan plan={plan} update={update} /> : <p class="quiet">Planning …</p>)}
      </div>
    </form>
  );
}
