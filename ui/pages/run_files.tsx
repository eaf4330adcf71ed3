/** A run's checkpoints, and the files that it offers for download. */

import { useEffect, useState } from "preact/hooks";
import type { Artifact, Checkpoint, Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { useAction } from "../parts/actions.ts";
import { bytesText, numberText, timeText } from "../parts/format.ts";
import { ProblemBox } from "../parts/problem.tsx";
import { MAIN_METRIC } from "../client/main_metric.ts";

interface Files {
  checkpoints: readonly Checkpoint[];
  artifacts: readonly Artifact[];
}

function Checkpoints({ checkpoints, metric }: { checkpoints: readonly Checkpoint[]; metric: string }) {
  if (checkpoints.length === 0) return <p class="quiet">There is none yet.</p>;
  return (
    <div class="table-scroll">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">Update</th>
            <th scope="col" class="number">{metric}</th>
            <th scope="col" class="number">Size</th>
            <th scope="col">Time</th>
          </tr>
        </thead>
        <tbody>
          {checkpoints.map(({ name, update, metrics, size_bytes, created_at, best }) => (
            <tr key={name}>
              <th scope="row">
                {name} {best && <span class="tag">best</span>}
              </th>
              <td class="number">{update}</td>
              <td class="number">{numberText(metrics[metric])}</td>
              <td class="number">{bytesText(size_bytes)}</td>
              <td>
                <time dateTime={created_at}>{timeText(created_at)}</time>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function RunFiles({ run }: { run: Run }) {
  const { api } = useClient(), download = useAction(), metric = MAIN_METRIC[run.algorithm];
  const [files, setFiles] = useState<Files | null>(null), [error, setError] = useState<unknown>(null);
  const { id, progress: { update }, state } = run;
  useEffect(() => {
    const abort = new AbortController(), input = { params: { id }, signal: abort.signal };
    Promise.all([
      api.call("GET /v1/runs/{id}/checkpoints", input),
      api.call("GET /v1/runs/{id}/artifacts", input),
    ]).then(
      ([{ checkpoints }, { artifacts }]) => setFiles({ checkpoints, artifacts }),
      (cause) => abort.signal.aborted || setError(cause),
    );
    return () => abort.abort();
  }, [id, update, state]);
  if (error !== null) return <ProblemBox error={error} />;
  if (!files) return <p class="loading">Loading files …</p>;
  // A download cannot carry the token, so the browser goes to a signed link.
  const fetchFile = (name: Artifact["name"]) =>
    download.start(async () => {
      const { url } = await api.call("POST /v1/runs/{id}/artifacts/{name}/link", { params: { id, name } });
      location.assign(new URL(`.${url}`, document.baseURI));
    });
  return (
    <>
      <h2>Downloads</h2>
      {download.error !== null && <ProblemBox error={download.error} />}
      <ul class="files">
        {files.artifacts.map(({ name, file_name, size_bytes }) => (
          <li key={name}>
            <button type="button" disabled={download.is_busy} onClick={() => fetchFile(name)}>
              {file_name}
            </button>
            <span class="quiet">{bytesText(size_bytes)}</span>
          </li>
        ))}
      </ul>
      <h2>Checkpoints</h2>
      <Checkpoints checkpoints={files.checkpoints} metric={metric} />
    </>
  );
}
