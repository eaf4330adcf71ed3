/** One dataset: its rows as they are read, as tokens, and how long they are. */

import type { Dataset, DatasetRow } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { useCall } from "../client/use_call.ts";
import { usePages } from "../client/use_pages.ts";
import { useAction } from "../parts/actions.ts";
import { Code } from "../parts/code.tsx";
import { AskTwice } from "../parts/command_button.tsx";
import { type Fact, Facts } from "../parts/facts.tsx";
import { bytesText, timeText } from "../parts/format.ts";
import { Loading } from "../parts/loading.tsx";
import { Message, type MessageProps } from "../parts/message.tsx";
import { WithMore } from "../parts/more.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { hrefOf, place } from "../routes.ts";
import { DatasetLengths } from "./dataset_lengths.tsx";
import { fieldsOf, type RowField } from "./dataset_rows.ts";
import { DatasetTokens } from "./dataset_tokens.tsx";

/** Rows of one answer. */
const PAGE_ROWS = 20;
/** Lines of JSON that are shown without being asked for. */
const SHORT_LINES = 24;

function Conversation({ messages }: { messages: readonly MessageProps[] }) {
  return <div class="conversation">{messages.map((message, i) => <Message key={i} {...message} />)}</div>;
}

function Field({ field }: { field: RowField }) {
  if ("json" in field) {
    const is_short = field.json.split("\n").length <= SHORT_LINES;
    return (
      <details class="fold row-field" open={is_short}>
        <summary>
          <code>{field.name}</code>
        </summary>
        <pre class="text">{field.json}</pre>
      </details>
    );
  }
  return (
    <div class={`row-field field-${field.name}`}>
      <p class="row-field-name">
        <code>{field.name}</code>
      </p>
      {"messages" in field ? <Conversation messages={field.messages} /> : <Code text={field.text} />}
    </div>
  );
}

function Row({ id, row: { line, row, text, problem } }: { id: string; row: DatasetRow }) {
  return (
    <li class={problem === null ? "row" : "row has-problem"}>
      <header>
        <h2>Row {line}</h2>
        {problem === null && <a href={hrefOf(["datasets", id, "rows", line])}>as tokens</a>}
      </header>
      {problem !== null && <p class="field-error">Training refuses this row: {problem}</p>}
      {row !== null
        ? (
          <div class="row-fields">
            {fieldsOf(row).map((field) => <Field key={field.name} field={field} />)}
          </div>
        )
        : <pre class="text">{text ?? "The line cannot be read."}</pre>}
    </li>
  );
}

function Rows({ dataset: { id } }: { dataset: Dataset }) {
  const input = { params: { id }, query: { limit: PAGE_ROWS } };
  const list = usePages("GET /v1/datasets/{id}/preview", input, { itemsOf: ({ rows }) => rows });
  return (
    <WithMore of={list} what="rows">
      {(rows) => <ol class="rows">{rows.map((row) => <Row key={row.line} id={id} row={row} />)}</ol>}
    </WithMore>
  );
}

function Problems({ dataset: { problems, invalid_rows } }: { dataset: Dataset }) {
  if (invalid_rows === 0) return null;
  return (
    <div class="problem" role="alert">
      <h2>
        Training refuses {invalid_rows === 1 ? "one row" : `${invalid_rows.toLocaleString("en")} rows`}
      </h2>
      <p>
        Correct these lines of the file and upload it again.
        {invalid_rows > problems.length && ` The first ${problems.length}:`}
      </p>
      <ul>
        {problems.map(({ line, message }) => <li key={line}>line {line}: {message}</li>)}
      </ul>
    </div>
  );
}

function Delete({ dataset: { id, name } }: { dataset: Dataset }) {
  const { api } = useClient(), action = useAction();
  const remove = async () => {
    await api.call("DELETE /v1/datasets/{id}", { params: { id } });
    location.assign(hrefOf(["datasets"]));
  };
  return (
    <>
      <AskTwice
        label="Delete …"
        sure={`Delete “${name}” for good`}
        keep="Keep it"
        is_off={action.is_busy}
        onSure={() => action.start(remove)}
      />
      {action.error !== null && <ProblemBox error={action.error} onClose={action.clear} />}
    </>
  );
}

function factsOf({ kind, rows, size_bytes, fields, created_at }: Dataset): Fact[] {
  return [
    ["Rows are", kind ?? "not recognised"],
    ["Rows", rows.toLocaleString("en")],
    ["Size", bytesText(size_bytes)],
    ["Fields", fields.join(", ") || "none"],
    ["Uploaded", timeText(created_at)],
  ];
}

/** The views of a dataset, by the third segment of their address. */
const VIEWS = { "": "Rows", rows: "Tokens", lengths: "Lengths" } as const;

function View({ dataset }: { dataset: Dataset }) {
  const [, , name = "", line = "1"] = place.value.segments;
  if (name === "lengths") return <DatasetLengths dataset={dataset} />;
  if (name === "rows") return <DatasetTokens dataset={dataset} line={line} />;
  return <Rows dataset={dataset} />;
}

export function DatasetPage() {
  const { segments: [, id = "", current = ""], query } = place.value, model = query.get("model");
  const loaded = useCall("GET /v1/datasets/{id}", { params: { id } });
  return (
    <>
      <p class="crumbs">
        <a href={hrefOf(["datasets"])}>All datasets</a>
      </p>
      <Loading of={loaded} what="the dataset">
        {(dataset) => (
          <>
            <header class="page-head">
              <h1>{dataset.name}</h1>
              <div class="actions">
                {dataset.kind !== null && (
                  <a class="button primary" href={hrefOf(["new"], { data: id })}>
                    New run with this dataset
                  </a>
                )}
                <Delete dataset={dataset} />
              </div>
            </header>
            {query.get("known") === "yes" && (
              <p class="notice" role="status">
                The server had these bytes already: this is the dataset of their first upload.
              </p>
            )}
            <Facts facts={factsOf(dataset)} is_small />
            <Problems dataset={dataset} />
            <nav class="tabs" aria-label="views of this dataset">
              {Object.entries(VIEWS).map(([key, label]) => (
                <a
                  key={key}
                  href={hrefOf(
                    ["datasets", id, key, ...(key === "rows" ? [1] : [])].filter((part) => part !== ""),
                    {
                      model,
                    },
                  )}
                  aria-current={key === current ? "page" : undefined}
                >
                  {label}
                </a>
              ))}
            </nav>
            <View dataset={dataset} />
          </>
        )}
      </Loading>
    </>
  );
}
