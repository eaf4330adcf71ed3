/** Fields of a recipe, with the server's problems and remarks beside them. */

import type { ComponentChildren } from "preact";
import type { Plan, ProblemError } from "../../../api/types.ts";
import type { ConfigKey } from "../../client/config_schema.ts";
import { valueAt } from "../../parts/values.ts";
import type { Draft } from "./draft.ts";
import { pointerOf } from "./places.ts";

/** The form that fields belong to. */
export interface Form {
  draft: Draft;
  change(fields: Partial<Draft>): void;
  keys: ReadonlyMap<string, ConfigKey>;
  /** The newest plan; its values are what empty fields stand for. */
  plan: Plan | null;
  /** The problems of a field, by its pointer. */
  errorsAt(pointer: string): readonly ProblemError[];
  /** Whether a start was refused: before it, an empty field is no mistake. */
  has_tried: boolean;
}

/** The id of a field's element. */
export function fieldId(pointer: string): string {
  return `field${pointer.replace(/[^\w]/g, "-")}`;
}

/** Moves the focus to a field. */
export function focusField(pointer: string): void {
  const element = document.getElementById(fieldId(pointer));
  element?.scrollIntoView({ block: "center" });
  element?.focus({ preventScroll: true });
}

interface Place {
  form: Form;
  pointer: string;
  is_empty: boolean;
}

/** Whether a field is shown as wrong. */
function isWrong({ form, pointer, is_empty }: Place): boolean {
  return form.errorsAt(pointer).length > 0 && (form.has_tried || !is_empty);
}

/** Problems that are shown at a field; the panel lists all. */
const SHOWN_ERRORS = 2;

/** What is to know about a field. Problems stand in place of the description, so that nothing moves when they come. */
function Remarks({ about, ...place }: Place & { about: ComponentChildren }) {
  const { form, pointer } = place, errors = form.errorsAt(pointer);
  return (
    <span id={`${fieldId(pointer)}-about`} class={isWrong(place) ? "remarks field-error" : "remarks quiet"}>
      {errors.slice(0, SHOWN_ERRORS).map(({ message, hint }) => (
        <span key={message}>
          {message}
          {hint !== undefined && `; ${hint}`}
        </span>
      ))}
      {errors.length > SHOWN_ERRORS && <span>and {errors.length - SHOWN_ERRORS} more</span>}
      {errors.length === 0 && about}
    </span>
  );
}

/** What an input has to tell those who do not see its surroundings. */
function described(place: Place) {
  return {
    id: fieldId(place.pointer),
    "aria-invalid": isWrong(place),
    "aria-describedby": `${fieldId(place.pointer)}-about`,
  };
}

interface DraftFieldProps {
  form: Form;
  pointer: string;
  label: ComponentChildren;
  value: string;
  onInput(text: string): void;
  placeholder?: string;
  about?: ComponentChildren;
  is_number?: boolean;
}

export function DraftField(props: DraftFieldProps) {
  const { form, pointer, label, value, onInput, placeholder = "", about, is_number = false } = props;
  const place = { form, pointer, is_empty: value.trim() === "" };
  return (
    <div class="field">
      <label for={fieldId(pointer)}>{label}</label>
      <input
        {...described(place)}
        type="text"
        inputMode={is_number ? "decimal" : "text"}
        autocomplete="off"
        spellcheck={false}
        value={value}
        placeholder={placeholder}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
      <Remarks {...place} about={about} />
    </div>
  );
}

/** What a key has when it is left out: the plan's value, or the default before there is one; empty if neither is known. */
export function resolvedText({ plan, keys }: Form, key: string): string {
  const value = valueAt(plan?.config, key) ?? keys.get(key)?.default;
  return value === undefined || value === null
    ? ""
    : typeof value === "string"
    ? value
    : JSON.stringify(value);
}

/** The values of a key that has few; null for others. */
function choicesOf(key: ConfigKey | undefined): readonly string[] | null {
  return key?.type === "boolean" ? ["true", "false"] : key?.values ?? null;
}

/** A key of the configuration. @param onRemove Given for one that was added. */
export function SettingField({ form, name, label = <code>{name}</code>, onRemove }: {
  form: Form;
  name: string;
  label?: ComponentChildren;
  onRemove?: () => void;
}) {
  const key = form.keys.get(name),
    value = form.draft.params[name] ?? "",
    pointer = pointerOf(["params", name]);
  const change = (text: string) => form.change({ params: { ...form.draft.params, [name]: text } });
  const choices = choicesOf(key), place = { form, pointer, is_empty: value === "" };
  const warnings =
    form.plan?.warnings.filter(({ field, code }) => field === name && code !== "lever_applied") ?? [];
  const about = (
    <>
      {key?.description}
      {warnings.map(({ message }) => <span key={message} class="field-warning">{message}</span>)}
    </>
  );
  const remove = onRemove && (
    <button type="button" class="plain" aria-label={`Remove ${name}`} onClick={onRemove}>Remove</button>
  );
  if (!choices) {
    const is_number = key?.type === "number" || key?.type === "integer";
    const placeholder = resolvedText(form, name);
    return (
      <div class="setting">
        <DraftField {...{ form, pointer, label, value, placeholder, about, is_number }} onInput={change} />
        {remove}
      </div>
    );
  }
  const resolved = resolvedText(form, name);
  return (
    <div class="setting">
      <div class="field">
        <label for={fieldId(pointer)}>{label}</label>
        <select
          {...described(place)}
          value={value}
          onChange={({ currentTarget }) => change(currentTarget.value)}
        >
          <option value="">{resolved === "" ? "left out" : `${resolved} (left out)`}</option>
          {choices.map((choice) => <option key={choice}>{choice}</option>)}
        </select>
        <Remarks {...place} about={about} />
      </div>
      {remove}
    </div>
  );
}

/** One of several things to choose from. */
export interface Choice {
  value: string;
  title: ComponentChildren;
  about?: ComponentChildren;
  /** Why it cannot be chosen. */
  refusal?: string | null;
}

/** One, or with `many` several, of a list. */
export function Choices({ legend, pointer, form, choices, chosen, onChoose, many = false, is_wide = false }: {
  legend: ComponentChildren;
  pointer: string;
  form: Form;
  choices: readonly Choice[];
  chosen: readonly string[];
  onChoose(values: readonly string[]): void;
  many?: boolean;
  /** Beside each other where there is room. */
  is_wide?: boolean;
}) {
  const choose = (value: string, is_chosen: boolean) =>
    onChoose(many ? [...chosen.filter((other) => other !== value), ...(is_chosen ? [value] : [])] : [value]);
  return (
    <fieldset
      id={fieldId(pointer)}
      class={is_wide ? "choices is-wide" : "choices"}
      tabIndex={-1}
    >
      <legend>
        {legend}
        <Remarks {...{ form, pointer, is_empty: chosen.every((value) => value === "") }} about={null} />
      </legend>
      <div class="choice-list">
        {choices.map(({ value, title, about, refusal = null }) => (
          <label key={value} class={refusal === null ? "choice" : "choice is-refused"}>
            <input
              type={many ? "checkbox" : "radio"}
              name={fieldId(pointer)}
              checked={chosen.includes(value)}
              disabled={refusal !== null}
              onChange={({ currentTarget }) =>
                choose(value, currentTarget.checked)}
            />
            <span class="choice-text">
              <span class="choice-title">{title}</span>
              {about !== undefined && <span class="quiet">{about}</span>}
              {refusal !== null && <span class="quiet">{refusal}</span>}
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
