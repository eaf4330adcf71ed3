/** A recipe by steps: model, data, objective, budget and settings. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Dataset, ModelFile } from "../../../api/types.ts";
import { useClient } from "../../client/context.ts";
import { bytesText, countText } from "../../parts/format.ts";
import { type Algorithm, ALGORITHMS, type Budget, hasKey } from "./algorithms.ts";
import { DataStep } from "./data_step.tsx";
import type { Draft } from "./draft.ts";
import { HELD_OUT } from "./field_names.ts";
import { type Choice, Choices, DraftField, type Form, resolvedText, SettingField } from "./fields.tsx";
import { type Offers, prefilled } from "./offers.ts";

interface StepProps {
  form: Form;
  offers: Offers;
}

function Step({ title, children }: { title: string; children: ComponentChildren }) {
  const id = `step-${title.toLowerCase()}`;
  return (
    <section class="step" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  );
}

function aboutModel(
  { architecture, parameters, size_bytes, context_length, tool_call_format }: ModelFile,
): string {
  const facts = [
    architecture,
    parameters !== null && `${countText(parameters)} parameters`,
    bytesText(size_bytes),
    context_length !== null && `context ${context_length.toLocaleString("en")}`,
    tool_call_format !== null && `tool calls ${tool_call_format}`,
  ];
  return facts.filter((fact) => typeof fact === "string").join(" · ");
}

/** The name of a file. */
const fileName = (path: string) => path.slice(path.lastIndexOf("/") + 1);

function ModelStep({ form, offers: { models } }: StepProps) {
  const bases = models.filter(({ type }) => type !== "adapter");
  return (
    <>
      {bases.length > 0
        ? (
          <Choices
            legend="Models on the server"
            pointer="/model-list"
            form={form}
            choices={bases.map((model) => ({
              value: model.path,
              title: fileName(model.path),
              about: aboutModel(model),
              refusal: model.trainable ? null : model.problem ?? "This build cannot train it.",
            }))}
            chosen={[form.draft.model]}
            onChoose={([model = ""]) => form.change({ model })}
          />
        )
        : (
          <p class="quiet">
            The server finds no GGUF file in the folders of its{" "}
            <code>path_roots</code>. Put one there, or name one.
          </p>
        )}
      <DraftField
        form={form}
        pointer="/model"
        label="Path of the GGUF file on the server"
        value={form.draft.model}
        onInput={(model) => form.change({ model })}
      />
    </>
  );
}

function AlgorithmChoice({ form, offers }: StepProps) {
  const { capabilities } = useClient();
  const choose = (recipe: Algorithm) =>
    form.change(prefilled({ ...form.draft, recipe, data: "" }, { ...offers, models: [] }));
  return (
    <Choices
      legend="The model learns from"
      pointer="/recipe"
      form={form}
      is_wide
      choices={capabilities.algorithms.map((name) => ({
        value: name,
        title: ALGORITHMS[name].title,
        about: ALGORITHMS[name].about,
      }))}
      chosen={[form.draft.recipe]}
      onChoose={([recipe]) => choose(recipe as Algorithm)}
    />
  );
}

/** The entries of a list of the catalogue that one field takes, each with what its author says of it. */
function entries(list: readonly { id: string; description: string; type: string }[]): Choice[] {
  return list.map(({ id, description, type }) => ({
    value: id,
    title: id,
    about: description === "" ? type : `${description} (${type})`,
  }));
}

type Id = Exclude<keyof Draft["objective"], "mcp_servers">;

/** What each place of an objective is, and the section of `server.toml` with its entries. */
const OBJECTIVE: Readonly<Record<Id, { list: "environments" | "rewards" | "judges"; legend: string }>> = {
  environment: { list: "environments", legend: "Environment: where tools run, and what verifies the result" },
  reward: { list: "rewards", legend: "Reward program" },
  judge: { list: "judges", legend: "Judge: a model that compares attempts" },
};

function ObjectiveStep({ form, offers }: StepProps) {
  const { draft: { objective }, change } = form;
  const empty = Object.values(OBJECTIVE).map(({ list }) => list).filter((list) => offers[list].length === 0);
  return (
    <div id="field-objective" class="step" tabIndex={-1}>
      {(Object.keys(OBJECTIVE) as Id[]).map((name) => {
        const { list, legend } = OBJECTIVE[name];
        return offers[list].length > 0 && (
          <Choices
            key={name}
            legend={legend}
            pointer={`/objective/${name}`}
            form={form}
            choices={[{ value: "", title: "None" }, ...entries(offers[list])]}
            chosen={[objective[name]]}
            onChoose={([id = ""]) => change({ objective: { ...objective, [name]: id } })}
          />
        );
      })}
      {offers.mcp_servers.length > 0 && (
        <Choices
          legend="Tools of MCP servers"
          pointer="/objective/mcp_servers"
          form={form}
          many
          choices={entries(offers.mcp_servers)}
          chosen={objective.mcp_servers}
          onChoose={(mcp_servers) => change({ objective: { ...objective, mcp_servers } })}
        />
      )}
      {empty.length > 0 && (
        <p class="quiet">
          The server declares no {empty.join(" and no ")}. Its operator adds them to <code>server.toml</code>.
        </p>
      )}
      <ObjectiveErrors form={form} />
    </div>
  );
}

function ObjectiveErrors({ form }: { form: Form }) {
  return (
    <>
      {form.errorsAt("/objective").map(({ message }) => (
        <p key={message} class={form.has_tried ? "field-error" : "quiet"}>{message}</p>
      ))}
    </>
  );
}

const BUDGET: Readonly<Record<Budget, { label: string; about: string }>> = {
  epochs: { label: "Epochs", about: "Passes over the data." },
  updates: { label: "Updates", about: "Steps of training." },
  minutes: { label: "Minutes", about: "The run ends after the update in progress." },
};

const LIMITS = { vram: "Memory of the device", ram: "Memory of the machine" };

const ALLOW = [
  {
    value: "truncate_context" as const,
    title: "Cut what is longer than the context",
    about: "Also to make the run fit into the memory (truncate_context).",
  },
  {
    value: "exceed_train_context" as const,
    title: "Train on more tokens than the model was trained for",
    about: "Results beyond its context may be poor (exceed_train_context).",
  },
];

function BudgetStep({ form }: { form: Form }) {
  const { draft: { recipe, budget, limits, allow }, change } = form, { capabilities } = useClient();
  return (
    <>
      <div class="field-row">
        {Object.entries(ALGORITHMS[recipe].budget).map(([name, key]) => (
          <DraftField
            key={name}
            form={form}
            pointer={`/budget/${name}`}
            {...BUDGET[name as Budget]}
            is_number
            value={budget[name as Budget]}
            placeholder={resolvedText(form, key)}
            onInput={(text) => change({ budget: { ...budget, [name]: text } })}
          />
        ))}
      </div>
      <div class="field-row">
        {(["vram", "ram"] as const).map((name) => (
          <DraftField
            key={name}
            form={form}
            pointer={`/limits/${name}`}
            label={LIMITS[name]}
            about="A share such as 0.5, or a size such as 8GiB."
            value={limits[name]}
            placeholder={String(capabilities.budgets[name].requested)}
            onInput={(text) => change({ limits: { ...limits, [name]: text } })}
          />
        ))}
      </div>
      <Choices
        legend="Allowed, though it degrades the result"
        pointer="/allow"
        form={form}
        many
        choices={ALLOW}
        chosen={allow}
        onChoose={(values) => change({ allow: values as Draft["allow"] })}
      />
    </>
  );
}

/** Keys that fields of the form set, or that are paths of the server. */
function isTaken(key: string): boolean {
  const fields = Object.values(ALGORITHMS).flatMap((
    { data, budget },
  ) => [data.key, ...Object.values(budget)]);
  return [...fields, "run.algorithm", "run.name", "model.path", HELD_OUT].includes(key);
}

function SettingsStep({ form }: { form: Form }) {
  const { draft: { recipe, params }, keys, change } = form, [name, setName] = useState("");
  const common = ALGORITHMS[recipe].settings;
  const added = Object.keys(params).filter((key) =>
    !common.includes(key) && key !== HELD_OUT && hasKey(recipe, key)
  );
  const offered = [...keys.keys()].filter((key) =>
    hasKey(recipe, key) && !isTaken(key) && !common.includes(key) && !added.includes(key)
  );
  const remove = (key: string) =>
    change({ params: Object.fromEntries(Object.entries(params).filter(([other]) => other !== key)) });
  return (
    <>
      <div class="settings">
        {common.map((key) => <SettingField key={key} form={form} name={key} />)}
        {added.map((key) => <SettingField key={key} form={form} name={key} onRemove={() => remove(key)} />)}
      </div>
      <form
        class="add-setting"
        onSubmit={(event) => {
          event.preventDefault();
          const key = name.trim();
          if (key !== "" && !common.includes(key)) {
            change({ params: { ...params, [key]: params[key] ?? "" } });
          }
          setName("");
        }}
      >
        <label class="field">
          <span>Another setting</span>
          <input
            list="offered-settings"
            value={name}
            placeholder="lora.alpha"
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </label>
        <datalist id="offered-settings">
          {offered.map((key) => <option key={key} value={key}>{keys.get(key)!.description}</option>)}
        </datalist>
        <button type="submit" disabled={name.trim() === ""}>Add</button>
      </form>
    </>
  );
}

export function RecipeForm({ form, offers, onUploaded }: StepProps & { onUploaded(dataset: Dataset): void }) {
  return (
    <div class="steps">
      <Step title="Model">
        <ModelStep form={form} offers={offers} />
      </Step>
      <Step title="Data">
        <AlgorithmChoice form={form} offers={offers} />
        <DataStep form={form} datasets={offers.datasets} onUploaded={onUploaded} />
      </Step>
      {ALGORITHMS[form.draft.recipe].has_objective && (
        <Step title="Objective">
          <ObjectiveStep form={form} offers={offers} />
        </Step>
      )}
      <Step title="Budget">
        <BudgetStep form={form} />
      </Step>
      <Step title="Settings">
        <SettingsStep form={form} />
      </Step>
      <Step title="Name">
        <DraftField
          form={form}
          pointer="/name"
          label="Name of the run"
          value={form.draft.name}
          onInput={(name) => form.change({ name })}
          placeholder="the server gives it one"
        />
      </Step>
    </div>
  );
}
