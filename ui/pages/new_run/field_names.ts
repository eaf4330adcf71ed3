/** The fields of a recipe by their JSON pointers. */

import { ALGORITHMS } from "./algorithms.ts";
import type { Draft } from "./draft.ts";
import { pointerOf } from "./places.ts";

/** The key of the data that nothing is trained on; its field is beside that of the data. */
export const HELD_OUT = "evaluation.data";

/** The names of all fields that a draft shows, by their pointers. */
export function fieldNames({ recipe, params }: Draft): Map<string, string> {
  const { data, budget, settings } = ALGORITHMS[recipe];
  const ids = ["environment", "reward", "judge", "mcp_servers"];
  const keys = new Set([...settings, HELD_OUT, ...Object.keys(params)]);
  return new Map([
    ["/recipe", "The model learns from"],
    ["/model", "Model"],
    [`/${data.field}`, data.title],
    ["/objective", "Objective"],
    ...ids.map((id): [string, string] => [`/objective/${id}`, id.replace("_", " ")]),
    ...Object.keys(budget).map((name): [string, string] => [`/budget/${name}`, name]),
    ...[...keys].map((key): [string, string] => [pointerOf(["params", key]), key]),
    ["/allow", "Allowed"],
    ["/limits/vram", "Memory of the device"],
    ["/limits/ram", "Memory of the machine"],
    ["/name", "Name"],
  ]);
}

/** Whether nothing is written yet in a field that has to be. */
export function isUnwritten(pointer: string, { recipe, model, data, objective }: Draft): boolean {
  const { environment, reward, judge } = objective;
  if (pointer === "/model") return model.trim() === "";
  if (pointer === `/${ALGORITHMS[recipe].data.field}`) return data.trim() === "";
  return pointer === "/objective" && environment + reward + judge === "";
}
