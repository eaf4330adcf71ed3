/** What the server says of a run before it starts: memory, levers, time, template, warnings, or why it is refused. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { InsufficientMemory, Plan, TemplateProbe } from "../../../api/types.ts";
import { ApiProblem } from "../../client/api.ts";
import type { Planned } from "../../client/planner.ts";
import { Facts } from "../../parts/facts.tsx";
import { bytesText, durationText, numberText } from "../../parts/format.ts";
import { ProblemBox } from "../../parts/problem.tsx";
import { valueAt } from "../../parts/values.ts";
import type { Draft } from "./draft.ts";
import { HOST_PREFIX, MemoryBar } from "./memory_bar.tsx";

/** What the panel can change in the request. Null for a whole configuration, which is planned as it is written. */
export interface Levers {
  /** The settings that the recipe has. */
  params: Draft["params"];
  /** Keeps a value that the server chose, whatever else changes. */
  keep(key: string, value: unknown): void;
  allow(degradation: Draft["allow"][number]): void;
}

/** A problem with the name of its place, which may be empty. */
export interface PlacedProblem {
  label: string;
  message: string;
  hint?: string | undefined;
  /** Moves the focus there. */
  onGo(): void;
}

export interface PlanPanelProps {
  planned: Planned;
  levers: Levers | null;
  /** The problems to fix. */
  places: readonly PlacedProblem[];
  /** Whether all problems are fields that nothing was written in yet. */
  is_incomplete: boolean;
  is_starting: boolean;
  onMeasure(): void;
  onRetry(): void;
  onStart(): void;
}

function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** A value that the server chose so that the run fits. The warnings name the keys in the order of the levers. */
function AppliedLevers({ plan, levers }: { plan: Plan; levers: Levers | null }) {
  const keys = plan.warnings.filter(({ code }) => code === "lever_applied").map(({ field }) => field ?? "");
  return (
    <Part title="Chosen so that it fits">
      <ul class="levers">
        {plan.levers.map(({ lever, saved_bytes, time_factor }, i) => {
          const key = keys[i] ?? lever, value = valueAt(plan.config, key);
          return (
            <li key={lever}>
              <span>
                <code>{key} = {JSON.stringify(value)}</code>
                <span class="quiet">
                  saves {bytesText(saved_bytes)}
                  {time_factor !== 1 && `, an update takes up to ${numberText(time_factor)} times as long`}
                </span>
              </span>
              {levers && levers.params[key] === undefined && (
                <button
                  type="button"
                  aria-label={`Keep ${key} = ${JSON.stringify(value)}`}
                  onClick={() => levers.keep(key, value)}
                >
                  Keep
                </button>
              )}
            </li>
          );
        })}
      </ul>
    </Part>
  );
}

function Memory({ plan: { memory } }: { plan: Plan }) {
  const device = memory.posts.filter(({ post }) => !post.startsWith(HOST_PREFIX));
  const host = memory.posts.filter(({ post }) => post.startsWith(HOST_PREFIX));
  return (
    <Part title="Memory">
      <MemoryBar
        title="On the device"
        posts={device}
        total={memory.peak_bytes}
        budget={memory.vram_budget_bytes}
      />
      {memory.host_peak_bytes > 0 && (
        <MemoryBar
          title="In the machine"
          posts={host}
          // A software adapter's memory is the machine's.
          others="device"
          total={memory.host_peak_bytes}
          budget={memory.ram_budget_bytes}
        />
      )}
    </Part>
  );
}

function Schedule({ plan: { schedule }, is_busy, onMeasure }: {
  plan: Plan;
  is_busy: boolean;
  onMeasure(): void;
}) {
  const { updates, tokens_per_update, seconds_per_update, eta_seconds, calibrated } = schedule;
  return (
    <Part title="Time">
      <Facts
        is_small
        facts={[
          ["Updates", updates === null ? "as many as the time allows" : updates.toLocaleString("en")],
          ["Tokens per update", tokens_per_update.toLocaleString("en")],
          [
            "An update takes",
            seconds_per_update === null ? "not measured" : `${numberText(seconds_per_update)} s`,
          ],
          ["The run takes", eta_seconds === null ? "not measured" : durationText(eta_seconds)],
        ]}
      />
      {!calibrated && (
        <button type="button" aria-disabled={is_busy} onClick={() => is_busy || onMeasure()}>
          Measure an update on the device
        </button>
      )}
    </Part>
  );
}

const yesNo = (is_so: boolean) => is_so ? "yes" : "no";

function Template({ probe }: { probe: TemplateProbe }) {
  return (
    <Part title="Chat template">
      <Facts
        is_small
        facts={[
          ["Tool calls", probe.tool_call_format],
          ["A call is read back as it was", yesNo(probe.tool_call_round_trip)],
          ["Longer conversations only add", yesNo(probe.prefix_stable)],
          [
            "Earlier thinking stays",
            probe.keeps_thinking === null ? "has none" : yesNo(probe.keeps_thinking),
          ],
          ["A turn ends with", probe.turn_end ?? "nothing"],
        ]}
      />
      {probe.problems.map((problem) => <p key={problem} class="field-warning">{problem}</p>)}
    </Part>
  );
}

function Warnings({ plan: { warnings } }: { plan: Plan }) {
  const others = warnings.filter(({ code }) => code !== "lever_applied");
  if (others.length === 0) return null;
  return (
    <Part title="Warnings">
      <ul class="warnings">
        {others.map(({ code, field, message }) => (
          <li key={`${code} ${field}`}>
            {field !== undefined && (
              <>
                <code>{field}</code>:
              </>
            )} {message}
          </li>
        ))}
      </ul>
    </Part>
  );
}

/** What is short, and by how much. A budget of 0 is not known. */
function Overflow({ meta, levers }: { meta: InsufficientMemory; levers: Levers | null }) {
  const { overflow_bytes, dominant_posts, vram_budget_bytes, ram_budget_bytes, unlocks } = meta;
  const is_host = dominant_posts[0]?.post.startsWith(HOST_PREFIX) ?? false;
  const budget = is_host ? ram_budget_bytes : vram_budget_bytes;
  return (
    <>
      {budget > 0 && (
        <MemoryBar
          title={is_host ? "In the machine" : "On the device"}
          posts={dominant_posts}
          total={budget + overflow_bytes}
          budget={budget}
        />
      )}
      {levers && unlocks.map((unlock) => (
        <button
          key={unlock}
          type="button"
          onClick={() => levers.allow(unlock)}
        >
          Allow {unlock.replaceAll("_", " ")}
        </button>
      ))}
    </>
  );
}

function isShort(meta: ApiProblem["problem"]["meta"]): meta is InsufficientMemory {
  return "overflow_bytes" in meta;
}

function Refusal({ error, ...props }: PlanPanelProps & { error: ApiProblem }) {
  const { places, is_incomplete, levers } = props, { problem } = error;
  if (is_incomplete) {
    return (
      <Part title="Still needed">
        <Places places={places} />
      </Part>
    );
  }
  return (
    <div class="problem" role="alert">
      <h3>{problem.title}</h3>
      {problem.errors.length === 0 && <p>{problem.detail}</p>}
      {isShort(problem.meta) && <Overflow meta={problem.meta} levers={levers} />}
      <Places places={places} />
      {problem.errors.length === 0 && <button type="button" onClick={props.onRetry}>Try again</button>}
      {problem.trace_id !== "" && (
        <p class="quiet">
          trace <code>{problem.trace_id}</code>
        </p>
      )}
    </div>
  );
}

function Places({ places }: Pick<PlanPanelProps, "places">) {
  return (
    <ul class="places">
      {places.map(({ label, message, hint, onGo }) => (
        <li key={`${label} ${message}`}>
          {label !== "" && <button type="button" class="as-link" onClick={onGo}>{label}</button>} {message}
          {hint !== undefined && <span class="hint">{hint}</span>}
        </li>
      ))}
    </ul>
  );
}

/** The plan in a word, for those who do not watch it. */
function stateOf({ planned: { plan, error, awaited }, is_incomplete }: PlanPanelProps): string {
  if (awaited === "measurement") return "Measuring an update on the device …";
  if (awaited === "plan") return "Planning …";
  if (error !== null) return is_incomplete ? "Not complete yet" : "Cannot start like this";
  return plan ? "Ready to start" : "";
}

/** Moves the focus to the first field that is refused, when the start was. */
function useRefusedStart({ is_starting, planned: { error }, places }: PlanPanelProps): void {
  const was_starting = useRef(false);
  useEffect(() => {
    if (was_starting.current && !is_starting && error !== null) places[0]?.onGo();
    was_starting.current = is_starting;
  }, [is_starting]);
}

export function PlanPanel(props: PlanPanelProps) {
  const { planned: { plan, error, awaited }, levers, is_starting, onMeasure, onRetry, onStart } = props;
  const is_busy = awaited !== null;
  useRefusedStart(props);
  return (
    <aside class="plan" aria-labelledby="plan-title">
      <header>
        <div>
          <h2 id="plan-title">Plan</h2>
          <p class="quiet" role="status">{stateOf(props)}</p>
        </div>
        <button type="button" class="primary" aria-disabled={is_starting} onClick={onStart}>
          {is_starting ? "Starting …" : "Start"}
        </button>
      </header>
      <div
        class={is_busy ? "plan-body is-busy" : "plan-body"}
        role="group"
        aria-label="details of the plan"
        aria-busy={is_busy}
        tabIndex={0}
      >
        {error instanceof ApiProblem
          ? <Refusal {...props} error={error} />
          : error !== null
          ? <ProblemBox error={error} onRetry={onRetry} />
          : plan && (
            <>
              <Memory plan={plan} />
              {plan.levers.length > 0 && <AppliedLevers plan={plan} levers={levers} />}
              <Schedule plan={plan} is_busy={is_busy} onMeasure={onMeasure} />
              <Warnings plan={plan} />
              <Template probe={plan.template_probe} />
            </>
          )}
      </div>
    </aside>
  );
}
