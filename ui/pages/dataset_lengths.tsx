/** How long the rows of a dataset are in tokens of a model. */

import type { Dataset, TokenizeSummary } from "../../api/types.ts";
import { useLoad } from "../client/use_call.ts";
import { type Fact, Facts } from "../parts/facts.tsx";
import { Loading } from "../parts/loading.tsx";
import { WithModel } from "../parts/model_choice.tsx";
import { hrefOf, place, replacePlace } from "../routes.ts";

const count = (value: number) => value.toLocaleString("en");

function Histogram({ histogram }: Pick<TokenizeSummary, "histogram">) {
  const most = Math.max(1, ...histogram.map(({ rows }) => rows));
  return (
    <table class="histogram">
      <caption class="unseen">Rows by their length in tokens</caption>
      <thead>
        <tr>
          <th scope="col" class="number">Tokens</th>
          <th scope="col">Rows</th>
          <th scope="col" class="number">
            <span class="unseen">number</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {histogram.map(({ min_tokens, max_tokens, rows }) => (
          <tr key={min_tokens}>
            <th scope="row" class="number">{count(min_tokens)} to {count(max_tokens)}</th>
            <td class="bar-cell">
              {rows > 0 && <div class="bar" style={{ width: `${100 * rows / most}%` }} />}
            </td>
            <td class="number">{count(rows)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function RowLinks({ id, model, rows }: {
  id: string;
  model: string;
  rows: readonly { line: number; text: string }[];
}) {
  return (
    <ul class="row-links">
      {rows.map(({ line, text }) => (
        <li key={line}>
          <a href={hrefOf(["datasets", id, "rows", line], { model })}>row {line}</a> {text}
        </li>
      ))}
    </ul>
  );
}

function Summary({ id, model, summary }: { id: string; model: string; summary: TokenizeSummary }) {
  const { ctx, rows, complete, sequences, tokens, trained_tokens, longest, truncated, problems } = summary;
  const facts: Fact[] = [
    ["Rows", count(rows)],
    ["Sequences", count(sequences)],
    ["Tokens", count(tokens)],
    ["Trained tokens", count(trained_tokens)],
    ["Context", count(ctx)],
    ["Rows longer than it", count(truncated.rows)],
  ];
  const link = (line: number, text = "") => ({ line, text });
  return (
    <>
      {!complete && (
        <p class="notice" role="status">
          The time was up before the last row: these are the lengths of the first {count(rows)}.
        </p>
      )}
      <Facts facts={facts} is_small />
      <div class="lengths">
        <section>
          <h2>Rows by length</h2>
          <Histogram histogram={summary.histogram} />
        </section>
        <section>
          <h2>Longest rows</h2>
          <RowLinks
            id={id}
            model={model}
            rows={longest.map(({ line, tokens }) => link(line, `${count(tokens)} tokens`))}
          />
        </section>
        {truncated.rows > 0 && (
          <section>
            <h2>Cut at {count(ctx)} tokens</h2>
            <p>What comes later is not trained. A larger training.ctx keeps it.</p>
            <RowLinks id={id} model={model} rows={truncated.lines.map((line) => link(line))} />
          </section>
        )}
        {problems.length > 0 && (
          <section>
            <h2>Cannot be rendered</h2>
            <RowLinks
              id={id}
              model={model}
              rows={problems.map(({ line, message }) => link(line, message))}
            />
          </section>
        )}
      </div>
    </>
  );
}

function Lengths({ id, model, ctx }: { id: string; model: string; ctx: number | null }) {
  const loaded = useLoad((api, signal) =>
    api.call("POST /v1/datasets/{id}/tokenize", {
      params: { id },
      body: { model, ...(ctx !== null && { ctx }) },
      signal,
    }), JSON.stringify([id, model, ctx]));
  return (
    <Loading of={loaded} what="the lengths of all rows, for up to a minute">
      {(summary) => <Summary id={id} model={model} summary={summary} />}
    </Loading>
  );
}

export function DatasetLengths({ dataset: { id, kind } }: { dataset: Dataset }) {
  const { query } = place.value, chosen = query.get("model"), ctx = query.get("ctx");
  const change = (given: { model?: string; ctx?: string }) =>
    replacePlace(["datasets", id, "lengths"], { model: chosen, ctx, ...given });
  if (kind === null) {
    return <p>These rows have no fields that training knows, so they have no length in tokens.</p>;
  }
  return (
    <WithModel
      chosen={chosen}
      onChoose={(model) => change({ model })}
      fields={
        <label class="field">
          <span>Context in tokens</span>
          <input
            type="number"
            min="1"
            placeholder="as in training"
            value={ctx ?? ""}
            onChange={({ currentTarget }) => change({ ctx: currentTarget.value })}
          />
        </label>
      }
    >
      {(model) => (
        <Lengths key={`${model} ${ctx}`} id={id} model={model} ctx={ctx === null ? null : Number(ctx)} />
      )}
    </WithModel>
  );
}
