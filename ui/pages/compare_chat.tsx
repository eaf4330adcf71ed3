/** One message to the base model and to the adapter of each run, their answers beside each other. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import type { Api } from "../client/api.ts";
import { useClient } from "../client/context.ts";
import { toolsOfRun } from "../client/run_tools.ts";
import { type ChatColumn, type ChatOptions, SideChat } from "../client/side_chat.ts";
import { useLoad } from "../client/use_call.ts";
import { Message } from "../parts/message.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { RunMark } from "../parts/run_mark.tsx";
import { baseOf, modelsOf } from "./compare_models.ts";
import type { ComparedProps } from "./compare_view.ts";

const DEFAULTS: ChatOptions = { system: "", max_tokens: 256, temperature: 0, seed: 0 };

const isAny = (list: readonly unknown[]) => list.length > 0;

const STATES = { idle: "", waiting: "waiting for its turn …", answering: "answering …" } as const;

function Column({ column, runs }: { column: ChatColumn; runs: readonly Run[] }) {
  const { model, turns, state, error } = column, at = runs.findIndex(({ id }) => id === model.run);
  const run = runs[at]!;
  return (
    <article class="chat-column" aria-label={model.has_adapter ? run.name : "base model"}>
      <h2>
        {model.has_adapter
          ? (
            <>
              <RunMark at={at} /> {run.name}
            </>
          )
          : (
            <>
              Base <span class="quiet">{baseOf(run).name}</span>
            </>
          )}
      </h2>
      {turns.value.length === 0 && <p class="quiet">No message yet.</p>}
      <div class="conversation" aria-live="polite">
        {turns.value.map(({ is_cut, ...turn }, i) => (
          <Message key={i} {...turn} {...(is_cut && { remark: "cut off at the most tokens" })} />
        ))}
      </div>
      {error.value !== null && <ProblemBox error={error.value} />}
      <p class="quiet" role="status">{STATES[state.value]}</p>
    </article>
  );
}

/** A number of the options. */
function NumberField({ label, value, onChange, ...limits }: {
  label: string;
  value: number;
  onChange(value: number): void;
  min: number;
  max?: number;
  step?: number;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="number"
        required
        {...limits}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.valueAsNumber)}
      />
    </label>
  );
}

/** How the models answer, folded away. */
function Options({ options, onChange, has_tools, onTools }: {
  options: ChatOptions;
  onChange(options: ChatOptions): void;
  /** Null: no run has tools. */
  has_tools: boolean | null;
  onTools(has_tools: boolean): void;
}) {
  const change = (given: Partial<ChatOptions>) => onChange({ ...options, ...given });
  return (
    <details class="fold">
      <summary>How they answer</summary>
      <div class="filters">
        <label class="field wide">
          <span>System message</span>
          <input
            value={options.system}
            onInput={({ currentTarget }) => change({ system: currentTarget.value })}
          />
        </label>
        <NumberField
          label="Most tokens"
          min={1}
          value={options.max_tokens}
          onChange={(max_tokens) => change({ max_tokens })}
        />
        <NumberField
          label="Temperature; 0: the likeliest"
          min={0}
          max={2}
          step={0.1}
          value={options.temperature}
          onChange={(temperature) => change({ temperature })}
        />
        <NumberField label="Seed" min={0} value={options.seed} onChange={(seed) => change({ seed })} />
        {has_tools !== null && (
          <label class="check">
            <input
              type="checkbox"
              checked={has_tools}
              onChange={({ currentTarget }) => onTools(currentTarget.checked)}
            />
            with the tools of its run, which are not executed
          </label>
        )}
      </div>
    </details>
  );
}

/** The message to all models. */
function Ask({ chat, tools }: { chat: SideChat; tools: ChatOptions["tools"] | null }) {
  const [prompt, setPrompt] = useState(""), [options, setOptions] = useState(DEFAULTS);
  const [has_tools, setTools] = useState(true), offers_tools = [...tools?.values() ?? []].some(isAny);
  const is_busy = chat.columns.some(({ state }) => state.value !== "idle");
  const has_begun = chat.columns.some(({ turns }) => turns.value.length > 0);
  const can_send = tools !== null && !is_busy && prompt.trim() !== "";
  const send = () => {
    if (!can_send) return;
    chat.send(prompt, { ...options, ...(has_tools && tools && { tools }) });
    setPrompt("");
  };
  return (
    <form class="ask" aria-label="message" onSubmit={(event) => (event.preventDefault(), send())}>
      <label class="field">
        <span>Message to all; Enter sends it, Shift and Enter begin a line</span>
        <textarea
          rows={2}
          required
          value={prompt}
          onInput={({ currentTarget }) => setPrompt(currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
      </label>
      <div class="ask-actions">
        <button type="submit" class="primary" aria-disabled={!can_send}>Send</button>
        <button type="button" aria-disabled={!is_busy} onClick={() => is_busy && chat.stop()}>Stop</button>
        <button type="button" aria-disabled={!has_begun} onClick={() => has_begun && chat.clear()}>
          New conversation
        </button>
      </div>
      <Options
        {...{ options, onChange: setOptions, has_tools: offers_tools ? has_tools : null, onTools: setTools }}
      />
    </form>
  );
}

/** The tools of each run; of none whose tools cannot be read. */
async function toolsOfRuns(api: Api, ids: readonly string[], signal: AbortSignal) {
  const offered = ids.map(async (id) => [id, (await toolsOfRun(api, id, signal)).tools] as const);
  const read = await Promise.allSettled(offered);
  return new Map(read.flatMap((each) => each.status === "fulfilled" ? [each.value] : []));
}

export function CompareChat({ runs }: ComparedProps) {
  const ids = runs.map(({ id }) => id);
  const { value: tools } = useLoad((api, signal) => toolsOfRuns(api, ids, signal), ids.join());
  const { api, capabilities: { features: { serving_enabled } } } = useClient(), models = modelsOf(runs);
  const chat = useMemo(() => new SideChat(api, models, serving_enabled), [api, JSON.stringify(models)]);
  useEffect(() => () => chat.stop(), [chat]);
  return (
    <section aria-label="chat">
      {!serving_enabled && (
        <p class="notice">
          Serving is off on this server, so the answers come whole and one after the other. Set{" "}
          <code>[serving] enabled = true</code> in its configuration to stream them.
        </p>
      )}
      <Ask chat={chat} tools={tools} />
      <div class="side-by-side" tabIndex={0} role="group" aria-label="answers">
        {chat.columns.map((column) => (
          <Column key={`${column.model.run} ${column.model.has_adapter}`} column={column} runs={runs} />
        ))}
      </div>
    </section>
  );
}
