/** What factories of environments with a sandbox share: the tools are toolsets, and a verification gives the grade. */

import { offeredToolsets, type ToolsetChoice, toolsetOf } from "../tools/toolsets.ts";
import type { EnvironmentFactory } from "./environment.ts";

type SharedPart = Pick<EnvironmentFactory, "grading_advice" | "catalog" | "catalogs" | "coverage">;

/** This part of a factory. */
export function toolsetFactory(choice: ToolsetChoice): SharedPart {
  return {
    grading_advice: "give it metadata.env.verify",
    catalog: (scenario) => Promise.try(() => toolsetOf(scenario, choice)),
    catalogs: () =>
      Promise.try(() =>
        offeredToolsets(choice).map((toolset) => ({
          ...toolset,
          is_default: toolset.name === choice.tools.default,
        }))
      ),
    // Tools of toolsets give no rewards, so without a verification there is no grade.
    coverage: (scenario) => scenario.env?.verify ? "all" : "none",
  };
}
