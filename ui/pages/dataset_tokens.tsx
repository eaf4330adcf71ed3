/** A row of a dataset as the tokens that a run would train. */

import { useState } from "preact/hooks";
import type { Dataset, DatasetToken } from "../../api/types.ts";
import { usePages } from "../client/use_pages.ts";
import { WithModel } from "../parts/model_choice.tsx";
import { WithMore } from "../parts/more.tsx";
import { Tokens } from "../parts/tokens.tsx";
import { place, replacePlace } from "../routes.ts";
import { sequencesOf } from "./dataset_sequences.ts";

/** Lines count from 1. */
const IS_LINE = /^[1-9]\d*$/;

function Sequences({ tokens }: { tokens: readonly DatasetToken[] }) {
  const sequences = sequencesOf(tokens);
  return (
    <>
      {sequences.map(({ title, tokens }) => (
        <section key={title} class="sequence">
          {sequences.length > 1 && <h2>{title}</h2>}
          <Tokens tokens={tokens} label={title} />
        </section>
      ))}
    </>
  );
}

function RowTokens({ id, line, model }: { id: string; line: string; model: string }) {
  const input = { params: { id, n: line }, query: { model } };
  const list = usePages("GET /v1/datasets/{id}/rows/{n}/tokens", input, { itemsOf: ({ tokens }) => tokens });
  return (
    <>
      <p class="mask-legend">
        <span class="marked is-trained">trained</span> the loss counts these ·{" "}
        <span class="marked">not trained</span> the model only reads these
      </p>
      <WithMore of={list} what="tokens">
        {(tokens) => <Sequences tokens={tokens} />}
      </WithMore>
    </>
  );
}

/** A choice of the row and of the model whose tokenizer and template make the tokens. */
export function DatasetTokens({ dataset: { id, rows, kind }, line }: { dataset: Dataset; line: string }) {
  const chosen = place.value.query.get("model"), [typed, setTyped] = useState(line);
  const go = (line: string, model: string | null) => replacePlace(["datasets", id, "rows", line], { model });
  if (kind === null) {
    return <p>These rows have no fields that training knows, so there are no tokens to show.</p>;
  }
  return (
    <WithModel
      chosen={chosen}
      onChoose={(model) => go(line, model)}
      fields={
        <label class="field">
          <span>Row, 1 to {rows.toLocaleString("en")}</span>
          <input
            type="number"
            min="1"
            value={typed}
            onInput={({ currentTarget: { value } }) => {
              setTyped(value);
              if (IS_LINE.test(value)) go(value, chosen);
            }}
          />
        </label>
      }
    >
      {(model) => <RowTokens key={`${model} ${line}`} id={id} line={line} model={model} />}
    </WithModel>
  );
}
