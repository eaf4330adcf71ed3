/** A run's checkpoints with what can be done with them, its evaluations, and the files that it offers for download. */

import { useState } from "preact/hooks";
import type { Artifact, Checkpoint, Evaluation, Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { MAIN_METRIC } from "../client/main_metric.ts";
import { useCall } from "../client/use_call.ts";
import { useAction } from "../parts/actions.ts";
import { bytesText, numberText, timeText } from "../parts/format.ts";
import { Loading } from "../parts/loading.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { EvaluateForm, scoreText } from "./run_checkpoint.tsx";
import { type Command, isOffered } from "./run_commands.ts";
import { ForkForm } from "./run_fork.tsx";
import { TryForm } from "./run_try.tsx";

/** What is being done with a checkpoint; its form stands below the table. */
type Doing = "evaluate" | "try" | "fork";

const FORMS = { evaluate: EvaluateForm, try: TryForm, fork: ForkForm } as const;
const DOINGS: readonly { doing: Doing; label: string; command: Command }[] = [
  { doing: "evaluate", label: "Evaluate", command: "evaluate" },
  { doing: "try", label: "Try", command: "generate" },
  { doing: "fork", label: "Fork", command: "fork" },
];

function CheckpointRow({ run: { state, algorithm }, checkpoint, chosen, onChoose }: {
  run: Run;
  checkpoint: Checkpoint;
  chosen: Doing | null;
  onChoose(doing: Doing | null): void;
}) {
  const { name, update, metrics, size_bytes, created_at, best } = checkpoint;
  return (
    <tr aria-selected={chosen !== null}>
      <th scope="row">
        {name} {best && <span class="tag">best</span>}
      </th>
      <td class="number" data-label="update">{update}</td>
      <td class="number" data-label={MAIN_METRIC[algorithm]}>
        {numberText(metrics[MAIN_METRIC[algorithm]])}
      </td>
      <td class="number">{bytesText(size_bytes)}</td>
      <td>
        <time dateTime={created_at}>{timeText(created_at)}</time>
      </td>
      <td>
        <div class="row-actions">
          {DOINGS.map(({ doing, label, command }) => {
            const is_chosen = chosen === doing, is_off = !is_chosen && !isOffered(command, state);
            return (
              <button
                key={doing}
                type="button"
                aria-pressed={is_chosen}
                aria-disabled={is_off}
                aria-label={`${label} ${name}`}
                onClick={() => is_off || onChoose(is_chosen ? null : doing)}
              >
                {label}
              </button>
            );
          })}
        </div>
      </td>
    </tr>
  );
}

function Checkpoints({ run, checkpoints }: { run: Run; checkpoints: readonly Checkpoint[] }) {
  const [chosen, choose] = useState<{ name: string; update: number; doing: Doing } | null>(null);
  const Form = chosen && FORMS[chosen.doing];
  if (checkpoints.length === 0) {
    return <p class="quiet">There is none yet. A live run writes one with “Checkpoint”.</p>;
  }
  return (
    <>
      <div class="table-scroll">
        <table class="list cards" aria-label="checkpoints">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" class="number">Update</th>
              <th scope="col" class="number">{MAIN_METRIC[run.algorithm]}</th>
              <th scope="col" class="number">Size</th>
              <th scope="col">Time</th>
              <th scope="col">
                <span class="unseen">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {checkpoints.map((checkpoint) => (
              <CheckpointRow
                key={checkpoint.name}
                run={run}
                checkpoint={checkpoint}
                chosen={chosen?.name === checkpoint.name ? chosen.doing : null}
                onChoose={(doing) => choose(doing && { ...checkpoint, doing })}
              />
            ))}
          </tbody>
        </table>
      </div>
      {Form && (
        <Form
          key={`${chosen.name} ${chosen.doing}`}
          run={run}
          checkpoint={chosen.name}
          update={chosen.update}
        />
      )}
    </>
  );
}

function Evaluations({ evaluations }: { evaluations: readonly Evaluation[] }) {
  if (evaluations.length === 0) return <p class="quiet">This run has not been evaluated on held-out data.</p>;
  return (
    <div class="table-scroll">
      <table class="list" aria-label="evaluations">
        <thead>
          <tr>
            <th scope="col" class="number">After update</th>
            <th scope="col">Held-out score, 95 % interval</th>
            <th scope="col" class="number">Reward</th>
            <th scope="col" class="number">Examples</th>
            <th scope="col">Time</th>
          </tr>
        </thead>
        <tbody>
          {evaluations.map((evaluation) => (
            <tr key={evaluation.n}>
              <th scope="row" class="number">{evaluation.update}</th>
              <td>{scoreText(evaluation)}</td>
              <td class="number">{numberText(evaluation.reward_mean)}</td>
              <td class="number">{evaluation.pass_rate?.n ?? evaluation.rows?.n ?? "–"}</td>
              <td>
                <time dateTime={evaluation.time}>{timeText(evaluation.time)}</time>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const ARTIFACT_TEXTS: Readonly<Record<Artifact["name"], string>> = {
  adapter: "the adapter, for llama.cpp and this server",
  adapter_peft: "the adapter, for PEFT",
  config: "the resolved configuration",
  events: "the event log",
  metrics: "all metrics",
  trajectories: "all trajectories",
  log: "the log for people",
};

function Downloads({ id, artifacts }: { id: string; artifacts: readonly Artifact[] }) {
  const { api } = useClient(), download = useAction();
  if (artifacts.length === 0) return <p class="quiet">The run has written nothing yet.</p>;
  // A download cannot carry the token, so the browser goes to a signed link.
  const fetchFile = (name: Artifact["name"]) =>
    download.start(async () => {
      const { url } = await api.call("POST /v1/runs/{id}/artifacts/{name}/link", { params: { id, name } });
      location.assign(new URL(`.${url}`, document.baseURI));
    });
  return (
    <>
      {download.error !== null && <ProblemBox error={download.error} />}
      <ul class="files">
        {artifacts.map(({ name, file_name, size_bytes }) => (
          <li key={name}>
            <button type="button" aria-disabled={download.is_busy} onClick={() => fetchFile(name)}>
              {file_name}
            </button>
            <span class="quiet">{ARTIFACT_TEXTS[name]}, {bytesText(size_bytes)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

export function RunFiles({ run }: { run: Run }) {
  const { id, progress: { update }, state } = run, params = { id }, version = `${update} ${state}`;
  const checkpoints = useCall("GET /v1/runs/{id}/checkpoints", { params, query: { limit: 500 } }, {
    version,
  });
  const evaluations = useCall("GET /v1/runs/{id}/evaluations", { params, query: { limit: 100 } }, {
    version,
  });
  const artifacts = useCall("GET /v1/runs/{id}/artifacts", { params }, { version });
  return (
    <div class="run-files">
      <section>
        <h2>Checkpoints</h2>
        <Loading of={checkpoints} what="checkpoints">
          {({ checkpoints }) => <Checkpoints run={run} checkpoints={checkpoints} />}
        </Loading>
      </section>
      <section>
        <h2>Evaluations</h2>
        <Loading of={evaluations} what="evaluations">
          {({ evaluations }) => <Evaluations evaluations={evaluations} />}
        </Loading>
      </section>
      <section>
        <h2>Downloads</h2>
        <Loading of={artifacts} what="files">
          {({ artifacts }) => <Downloads id={id} artifacts={artifacts} />}
        </Loading>
      </section>
    </div>
  );
}
