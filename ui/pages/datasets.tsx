/** All datasets of the server, and the upload of another one. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Dataset } from "../../api/types.ts";
import { allPages } from "../client/api.ts";
import { useClient } from "../client/context.ts";
import { useLoad } from "../client/use_call.ts";
import { useAction } from "../parts/actions.ts";
import { bytesText, timeText } from "../parts/format.ts";
import { type Column, ListTable } from "../parts/list_table.tsx";
import { Loading } from "../parts/loading.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { hrefOf } from "../routes.ts";

const KINDS = ["auto", "sft", "preference", "scenarios"] as const;

/** How much of a file is sent; all of it while the server reads its rows. */
function Sending({ sent, total, onCancel }: { sent: number; total: number; onCancel(): void }) {
  return (
    <div class="sending" role="status">
      <progress value={sent} max={total} aria-label="upload" />
      <span>
        {sent < total ? `${bytesText(sent)} of ${bytesText(total)} sent` : "The server checks the rows …"}
      </span>
      <button type="button" onClick={onCancel}>Cancel</button>
    </div>
  );
}

function Upload() {
  const { api, capabilities } = useClient(), action = useAction();
  const [file, setFile] = useState<File | null>(null), [name, setName] = useState("");
  const [kind, setKind] = useState<string>(KINDS[0]), [sent, setSent] = useState(0);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const { max_dataset_bytes } = capabilities.limits;
  const send = async () => {
    if (!file) return;
    setSent(0);
    const { signal } = abort.current = new AbortController();
    const query = new URLSearchParams({ name: name.trim() || file.name, kind });
    try {
      const response = await api.sendFile(`./v1/datasets?${query}`, file, {
        headers: { "content-type": "application/x-ndjson" },
        signal,
        onProgress: setSent,
      });
      const { id }: Dataset = await response.json();
      // 201: new; 200: the bytes were there already.
      location.assign(hrefOf(["datasets", id], { known: response.status === 200 ? "yes" : null }));
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
  return (
    <form
      class="upload"
      aria-label="upload a dataset"
      onSubmit={(event) => (event.preventDefault(), action.start(send))}
    >
      <label class="field">
        <span>File of JSON lines, up to {bytesText(max_dataset_bytes)}</span>
        <input
          type="file"
          required
          onChange={({ currentTarget }) => setFile(currentTarget.files?.[0] ?? null)}
        />
      </label>
      <label class="field">
        <span>Name</span>
        <input
          value={name}
          placeholder={file?.name ?? "as the file"}
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>Rows are</span>
        <select value={kind} onChange={({ currentTarget }) => setKind(currentTarget.value)}>
          {KINDS.map((kind) => (
            <option key={kind} value={kind}>{kind === "auto" ? "recognised by their fields" : kind}</option>
          ))}
        </select>
      </label>
      <button type="submit" class="primary" aria-disabled={!file || action.is_busy}>Upload</button>
      {action.is_busy && file && (
        <Sending
          sent={sent}
          total={file.size}
          onCancel={() => abort.current?.abort()}
        />
      )}
      {action.error !== null && <ProblemBox error={action.error} onRetry={action.clear} />}
    </form>
  );
}

function Row({ dataset: { id, name, kind, rows, invalid_rows, size_bytes, created_at } }: {
  dataset: Dataset;
}) {
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf(["datasets", id])}>{name}</a>
      </th>
      <td>{kind ?? <span class="quiet">not recognised</span>}</td>
      <td class="number">{rows.toLocaleString("en")}</td>
      <td class="number">
        {invalid_rows > 0 ? <strong class="is-bad">{invalid_rows.toLocaleString("en")}</strong> : "0"}
      </td>
      <td class="number">{bytesText(size_bytes)}</td>
      <td>
        <time dateTime={created_at}>{timeText(created_at)}</time>
      </td>
    </tr>
  );
}

const COLUMNS: readonly Column[] = [
  "Dataset",
  "Rows are",
  { number: "Rows" },
  { number: "Refused" },
  { number: "Size" },
  "Uploaded",
];

export function DatasetsPage() {
  const loaded = useLoad(async (api, signal) => {
    const pages = await allPages((query) => api.call("GET /v1/datasets", { query, signal }));
    return pages.flatMap(({ datasets }) => datasets);
  }, "datasets");
  return (
    <>
      <header class="page-head">
        <h1>Datasets</h1>
      </header>
      <Upload />
      <Loading of={loaded} what="the datasets">
        {(datasets) =>
          datasets.length === 0
            ? (
              <div class="empty">
                <h2>No datasets yet</h2>
                <p>
                  A dataset is a file of JSON lines: conversations to imitate, pairs of a better and a worse
                  answer, or scenarios to practise on. Upload one above, and see its rows as they will be
                  trained.
                </p>
              </div>
            )
            : (
              <ListTable columns={COLUMNS}>
                {datasets.map((dataset) => <Row key={dataset.id} dataset={dataset} />)}
              </ListTable>
            )}
      </Loading>
    </>
  );
}
