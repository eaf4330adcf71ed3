/** A new run: a recipe by steps or the text of a configuration, with the server's plan beside it. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Dataset, Plan, ProblemError } from "../../api/types.ts";
import { ApiProblem } from "../client/api.ts";
import { type ConfigKeys, configKeysOf } from "../client/config_schema.ts";
import { useClient } from "../client/context.ts";
import { type Planned, Planner } from "../client/planner.ts";
import { planRun, type RunRequest, RunStarter } from "../client/run_request.ts";
import { ProblemBox } from "../parts/problem.tsx";
import { hrefOf, place, replacePlace } from "../routes.ts";
import { type Draft, recipeOf } from "./new_run/draft.ts";
import { Editor } from "./new_run/editor.tsx";
import { fieldNames, isUnwritten } from "./new_run/field_names.ts";
import { focusField, type Form } from "./new_run/fields.tsx";
import { algorithmFor, draftWith, offeredValues, type Offers, prefilled } from "./new_run/offers.ts";
import { lineErrors, type LineRemark, lineWarnings, placeErrors } from "./new_run/places.ts";
import { type Levers, type PlacedProblem, PlanPanel } from "./new_run/plan_panel.tsx";
import { RecipeForm } from "./new_run/recipe_form.tsx";
import {
  BLANK,
  copyOf,
  forgetRun,
  isBegun,
  isUntouched,
  type NewRun,
  savedRun,
  saveRun,
  withRecipe,
} from "./new_run/saved.ts";
import { type Server, useServer } from "./new_run/server.ts";

/** What is written when the page opens: another run's configuration, or what was written before, or nothing yet. */
function openedRun({ offers, from }: Server): NewRun {
  const { query } = place.value, asked = query.get("mode"), mode = asked === "toml" ? "toml" : "recipe";
  const recipe = algorithmFor(offers) ?? BLANK.draft.recipe;
  const fresh = { ...BLANK, mode, draft: prefilled({ ...BLANK.draft, recipe }, offers) } as const;
  const saved = savedRun(sessionStorage);
  if (from) return copyOf(from, { saved, fresh });
  const dataset = offers.datasets.find(({ id }) => id === query.get("data"));
  if (dataset) {
    const before = saved ?? BLANK;
    return { ...before, mode: "recipe", draft: draftWith(before.draft, dataset, offers) };
  }
  if (saved) return asked === null ? saved : { ...saved, mode };
  return fresh;
}

export function NewRunPage() {
  const from = place.value.query.get("from");
  const server = useServer(from !== null && isBegun(from, savedRun(sessionStorage)) ? null : from);
  if (server.error !== null) return <ProblemBox error={server.error} onRetry={server.retry} />;
  if (server.value) return <NewRunForm server={server.value} />;
  return (
    <>
      <header class="page-head">
        <h1>New run</h1>
      </header>
      <p class="loading">Loading what the server offers …</p>
    </>
  );
}

/** Plans the request whenever it changes, and starts it. */
function useRequests(request: RunRequest, onRefused: () => void) {
  const { api } = useClient(), [is_starting, setStarting] = useState(false);
  const planner = useMemo(() => new Planner((request, options) => planRun(api, request, options)), [api]);
  const starter = useMemo(() => new RunStarter(api), [api]), wanted = JSON.stringify(request);
  useEffect(() => () => planner.close(), [planner]);
  useEffect(() => planner.want(request), [planner, wanted]);
  const start = () => {
    if (is_starting) return;
    setStarting(true);
    starter.start(request).then(({ id }) => {
      forgetRun(sessionStorage);
      location.hash = hrefOf(["runs", id]);
    }, (error) => {
      setStarting(false);
      planner.refuse(request, error);
      onRefused();
    });
  };
  return { planner, start, is_starting };
}

/** The newest plan of the recipe, also while the text is planned; null when the recipe was refused. */
function useRecipePlan({ plan, error, request }: Planned): Plan | null {
  const newest = useRef<Plan | null>(null);
  if (request && "recipe" in request) newest.current = error === null ? plan : null;
  return newest.current;
}

function errorsOf({ error }: Planned): readonly ProblemError[] {
  return error instanceof ApiProblem ? error.problem.errors : [];
}

/** What the server remarks on the lines of the text that it saw. */
function remarksOf({ plan, error, request }: Planned): LineRemark[] {
  if (!request || !("toml" in request)) return [];
  if (error instanceof ApiProblem) return lineErrors(request.toml, error.problem);
  return error === null && plan ? lineWarnings(request.toml, plan.warnings) : [];
}

/** How the recipe is written, or the text. */
function ModeSwitch({ mode, is_busy, onChange }: {
  mode: NewRun["mode"];
  is_busy: boolean;
  onChange(mode: NewRun["mode"]): void;
}) {
  return (
    <div class="switch" role="group" aria-label="form of the configuration">
      <button type="button" aria-pressed={mode === "recipe"} onClick={() => onChange("recipe")}>
        Recipe
      </button>
      <button
        type="button"
        aria-pressed={mode === "toml"}
        aria-busy={is_busy}
        onClick={() => onChange("toml")}
      >
        TOML
      </button>
    </div>
  );
}

interface TextProps {
  run: NewRun;
  replaced: number;
  known: ConfigKeys;
  offers: Offers;
  remarks: readonly LineRemark[];
  onChange(text: string): void;
  onReplace(): void;
  onReady(goTo: (line: number) => void): void;
}

function TextOfRun({ run, replaced, known, offers, remarks, onChange, onReplace, onReady }: TextProps) {
  return (
    <div class="toml">
      <Editor
        text={run.text}
        {...{ replaced, onChange, known, remarks, onReady }}
        offered={offeredValues(offers)}
      />
      <p class="quiet">
        Ctrl-Space proposes sections, keys and values. F8 goes to the next problem. Tab leaves the editor
        while nothing is proposed.
      </p>
      {!isUntouched(run) && <button type="button" onClick={onReplace}>Replace the text by the recipe</button>}
    </div>
  );
}

/** The problems of a recipe at its fields, and what the panel may change of it. */
function recipeParts({ draft, change }: Pick<Form, "draft" | "change">, errors: readonly ProblemError[]) {
  const names = fieldNames(draft), { at } = placeErrors(errors, [...names.keys()]);
  const fieldOf = (error: ProblemError) => [...at].find(([, found]) => found.includes(error))?.[0] ?? "";
  const places = errors.map((error): PlacedProblem => ({
    label: names.get(fieldOf(error)) ?? error.pointer,
    message: error.message,
    hint: error.hint,
    onGo: () => focusField(fieldOf(error)),
  }));
  const levers: Levers = {
    params: draft.params,
    keep: (key, value) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      change({ params: { ...draft.params, [key]: text } });
    },
    allow: (degradation) => change({ allow: [...draft.allow, degradation] }),
  };
  return { at, places, levers };
}

/** Keeps what is written for the tab, and switches between its forms. The first text is made of the recipe. */
function useMode(
  [run, setRun]: [NewRun, (run: NewRun) => void],
  { planned, plan, keys }: { planned: Planned; plan: Plan | null; keys: Form["keys"] },
) {
  const [is_carried, setCarried] = useState(false), { mode, from } = run;
  // At once: an effect that waits for the next frame is dropped when the page is left before it.
  useLayoutEffect(() => saveRun(sessionStorage, run), [run]);
  useEffect(() => replacePlace(["new"], { from, mode: mode === "toml" ? mode : null }), [from, mode]);
  useEffect(() => {
    // The newest plan of the recipe may be on its way.
    if (!is_carried || planned.awaited === "plan") return;
    setCarried(false);
    setRun({ ...withRecipe(run, { plan, keys }), mode: "toml" });
  }, [is_carried, planned.awaited]);
  const changeMode = (to: NewRun["mode"]) => {
    const is_carried = to === "toml" && mode === "recipe" && isUntouched(run);
    setCarried(is_carried);
    if (!is_carried) setRun({ ...run, mode: to });
  };
  return { changeMode, is_carried };
}

function NewRunForm({ server }: { server: Server }) {
  const known = useMemo(() => configKeysOf(server.schema), [server.schema]), { keys } = known;
  const [offers, setOffers] = useState(server.offers), [has_tried, setTried] = useState(false);
  const [replaced, setReplaced] = useState(0);
  const [run, setRun] = useState(() => openedRun(server)), { mode, draft, text } = run;
  const goToLine = useRef((_line: number) => {}), is_text = mode === "toml";
  const request: RunRequest = is_text ? { toml: text } : { recipe: recipeOf(draft, keys) };
  const { planner, start, is_starting } = useRequests(request, () => setTried(true));
  const planned = planner.state.value, plan = useRecipePlan(planned), errors = errorsOf(planned);
  const { changeMode, is_carried } = useMode([run, setRun], { planned, plan, keys });
  const change = (fields: Partial<Draft>) =>
    setRun((run) => ({ ...run, draft: { ...run.draft, ...fields } }));
  const { at, places, levers } = recipeParts({ draft, change }, errors);
  const form: Form = {
    ...{ draft, change, keys, has_tried, plan: planned.plan },
    errorsAt: (pointer) => at.get(pointer) ?? [],
  };
  const remarks = remarksOf(planned);
  const line_places = remarks.filter(({ severity }) => severity === "error").map(({ line, message }) => ({
    ...{ label: `line ${line}`, message, onGo: () => goToLine.current(line) },
  }));
  const upload = (dataset: Dataset) => {
    const others = offers.datasets.filter(({ id }) => id !== dataset.id);
    setOffers({ ...offers, datasets: [dataset, ...others] });
    change({ data: dataset.id });
  };
  return (
    <>
      <header class="page-head">
        <h1>New run</h1>
        {run.before && (
          <button type="button" onClick={() => (setRun(run.before!), setReplaced(replaced + 1))}>
            Back to your draft
          </button>
        )}
        <ModeSwitch mode={mode} is_busy={is_carried} onChange={changeMode} />
      </header>
      <div class="new-run">
        {is_text
          ? (
            <TextOfRun
              {...{ run, replaced, known, offers, remarks }}
              onChange={(text) => setRun((run) => ({ ...run, text }))}
              onReplace={() => {
                setRun(withRecipe(run, { plan, keys }));
                setReplaced(replaced + 1);
              }}
              onReady={(goTo) => goToLine.current = goTo}
            />
          )
          : <RecipeForm form={form} offers={offers} onUploaded={upload} />}
        <PlanPanel
          planned={planned}
          levers={is_text ? null : levers}
          places={is_text ? line_places : places}
          is_incomplete={!is_text && !has_tried && errors.length > 0 &&
            errors.every(({ pointer }) => isUnwritten(pointer, draft))}
          is_starting={is_starting}
          onMeasure={() => planner.planNow(request, { is_measured: true })}
          onRetry={() => planner.planNow(request)}
          onStart={start}
        />
      </div>
    </>
  );
}
