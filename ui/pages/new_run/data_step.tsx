/** The data of a run: a dataset of the server, one that is uploaded here, or a path. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Dataset, DatasetRow } from "../../../api/types.ts";
import { useClient } from "../../client/context.ts";
import { useCall } from "../../client/use_call.ts";
import { bytesText } from "../../parts/format.ts";
import { Loading } from "../../parts/loading.tsx";
import { ProblemBox } from "../../parts/problem.tsx";
import { ALGORITHMS } from "./algorithms.ts";
import { Choices, DraftField, type Form, SettingField } from "./fields.tsx";
import { HELD_OUT } from "./field_names.ts";
import { datasetsFor } from "./offers.ts";

/** Rows that are shown of a dataset. */
const PREVIEW_ROWS = 3;

/** The texts of a row's field: messages by role, other values as they are. */
function Value({ value }: { value: unknown }) {
  const messages = Array.isArray(value) && value.every((item) => typeof item?.role === "string")
    ? value
    : null;
  if (!messages || messages.length === 0) {
    return <span class="data-text">{typeof value === "string" ? value : JSON.stringify(value)}</span>;
  }
  return (
    <>
      {messages.map(({ role, content, tool_calls }, i) => (
        <span key={i} class="data-text">
          <span class="quiet">{role}</span>{" "}
          {typeof content === "string" ? content : JSON.stringify(content ?? "")}
          {tool_calls && <code>{JSON.stringify(tool_calls)}</code>}
        </span>
      ))}
    </>
  );
}

function Row({ row: { line, row, text, problem } }: { row: DatasetRow }) {
  return (
    <li>
      <dl class="data-row">
        {row
          ? Object.entries(row).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <Value value={value} />
              </dd>
            </div>
          ))
          : (
            <div>
              <dt>line {line}</dt>
              <dd class="data-text">{text}</dd>
            </div>
          )}
      </dl>
      {problem !== null && <p class="field-error">{problem}</p>}
    </li>
  );
}

function Preview({ dataset }: { dataset: Dataset }) {
  const rows = useCall("GET /v1/datasets/{id}/preview", {
    params: { id: dataset.id },
    query: { limit: PREVIEW_ROWS },
  });
  const { problems, invalid_rows } = dataset;
  return (
    <details class="first-rows" open>
      <summary>The first rows of {dataset.name}</summary>
      {invalid_rows > 0 && (
        <p class="field-warning">
          Training would refuse {invalid_rows.toLocaleString("en")} of its lines:{" "}
          {problems.slice(0, PREVIEW_ROWS).map(({ line, message }) => `line ${line} ${message}`).join("; ")}
        </p>
      )}
      <div class="first-rows-box" role="group" aria-label="rows" tabIndex={0}>
        <Loading of={rows} what="rows">
          {({ rows }) => <ol>{rows.map((row) => <Row key={row.line} row={row} />)}</ol>}
        </Loading>
      </div>
    </details>
  );
}

/** A file that is being sent. */
function Upload({ onDone }: { onDone(dataset: Dataset): void }) {
  const { api, capabilities: { limits: { max_dataset_bytes } } } = useClient();
  const [sent, setSent] = useState<{ name: string; share: number } | null>(null);
  const [error, setError] = useState<unknown>(null), [is_over, setOver] = useState(false);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const send = async (file: File | undefined) => {
    if (!file || abort.current) return;
    const controller = abort.current = new AbortController(), { signal } = controller;
    setError(null);
    setSent({ name: file.name, share: 0 });
    try {
      const response = await api.sendFile(`./v1/datasets?${new URLSearchParams({ name: file.name })}`, file, {
        headers: { "content-type": "application/x-ndjson" },
        signal,
        onProgress: (sent) => setSent({ name: file.name, share: file.size > 0 ? sent / file.size : 1 }),
      });
      onDone(await response.json());
    } catch (cause) {
      if (!signal.aborted) setError(cause);
    }
    abort.current = null;
    setSent(null);
  };
  return (
    <div
      class={is_over ? "file-drop is-over" : "file-drop"}
      onDragOver={(event) => (event.preventDefault(), setOver(true))}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        send(event.dataTransfer?.files[0]);
      }}
    >
      {sent
        ? (
          <>
            <span>{sent.share < 1 ? `Uploading ${sent.name} …` : `The server checks ${sent.name} …`}</span>
            <progress value={sent.share} max={1} aria-label={`upload of ${sent.name}`} />
            <button type="button" onClick={() => abort.current?.abort()}>Stop</button>
          </>
        )
        : (
          <>
            <label class="button">
              Upload a file
              <input
                class="unseen"
                type="file"
                accept=".jsonl,.ndjson,application/x-ndjson"
                onChange={({ currentTarget }) => {
                  send(currentTarget.files?.[0]);
                  currentTarget.value = "";
                }}
              />
            </label>
            <span class="quiet">or drop it here: JSON Lines, at most {bytesText(max_dataset_bytes)}</span>
          </>
        )}
      {error !== null && <ProblemBox error={error} onRetry={() => setError(null)} />}
    </div>
  );
}

function aboutDataset({ rows, size_bytes, invalid_rows }: Dataset): string {
  const broken = invalid_rows > 0 ? ` · ${invalid_rows.toLocaleString("en")} refused` : "";
  return `${rows.toLocaleString("en")} rows · ${bytesText(size_bytes)}${broken}`;
}

export function DataStep({ form, datasets, onUploaded }: {
  form: Form;
  datasets: readonly Dataset[];
  onUploaded(dataset: Dataset): void;
}) {
  const { draft, change } = form, { data: { field, title } } = ALGORITHMS[draft.recipe];
  const fitting = datasetsFor(datasets, draft.recipe), pointer = `/${field}`;
  const chosen = datasets.find(({ id }) => id === draft.data);
  return (
    <>
      {fitting.length > 0 && (
        <Choices
          legend="Datasets of the server"
          pointer={`${pointer}-list`}
          form={form}
          choices={fitting.map((dataset) => ({
            value: dataset.id,
            title: dataset.name,
            about: aboutDataset(dataset),
          }))}
          chosen={[draft.data]}
          onChoose={([data = ""]) => change({ data })}
        />
      )}
      <Upload onDone={onUploaded} />
      <DraftField
        form={form}
        pointer={pointer}
        label={`${title}: a dataset’s id, or a path on the server`}
        value={draft.data}
        onInput={(data) => change({ data })}
      />
      {chosen && <Preview key={chosen.id} dataset={chosen} />}
      <HeldOut form={form} datasets={fitting} />
    </>
  );
}

function HeldOut({ form, datasets }: { form: Form; datasets: readonly Dataset[] }) {
  const { draft: { params }, change } = form;
  return (
    <>
      <SettingField
        form={form}
        name={HELD_OUT}
        label="Held-out data: a dataset’s id, or a path on the server"
      />
      <div class="offers">
        {datasets.filter(({ id }) => id !== form.draft.data && id !== params[HELD_OUT]).map((
          { id, name },
        ) => (
          <button key={id} type="button" onClick={() => change({ params: { ...params, [HELD_OUT]: id } })}>
            Hold out {name}
          </button>
        ))}
      </div>
    </>
  );
}
