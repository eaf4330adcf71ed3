/** `svc scenarios history`: how often the scenarios of a run passed in each update. */

import type { Command } from "commander";
import { join } from "node:path";
import { OBSERVE_INDEX } from "../agent/results/observed.ts";
import { ServiceError } from "../core/errors.ts";
import { isPresent } from "../core/files.ts";
import { jsonText, printable } from "../core/text.ts";
import { ObservedIndex } from "../runs/views/observed_index.ts";
import { scenariosOf, scenarioView } from "../runs/views/scenarios.ts";
import type { ScenarioView } from "../runs/views/shapes.ts";
import type { CliContext } from "./context.ts";
import type { Terminal } from "./terminal.ts";

/** The newest updates of a scenario that a line shows. */
const SHOWN_UPDATES = 8;

interface HistoryOptions {
  json?: true;
  sort?: true;
}

/** The folder of a run's trajectories: given itself, or in the run's folder. @throws {ServiceError} `path_not_found`. */
async function observeDirectory(given: string): Promise<string> {
  for (const folder of [given, join(given, "trajectories")]) {
    if (await isPresent(join(folder, OBSERVE_INDEX))) return folder;
  }
  throw new ServiceError(
    "path_not_found",
    `Cannot show the history of ${given}: it has no trajectories; name the folder of a run with [observe]`,
    { path: given },
  );
}

/** The share of passed attempts; scenarios without one come last. */
const rateOf = ({ pass_rate }: ScenarioView) => pass_rate ?? 2;

function printHistory(terminal: Terminal, scenarios: readonly ScenarioView[]): void {
  const width = Math.max(...scenarios.map(({ scenario }) => printable(scenario).length));
  for (const { scenario, attempts, passes, updates } of scenarios) {
    const shown = updates.slice(-SHOWN_UPDATES).map((row) => `${row.update}: ${row.passes}/${row.attempts}`);
    const earlier = updates.length > shown.length ? "… " : "";
    const total = `${passes}/${attempts}`.padStart(9);
    terminal.line(`${printable(scenario).padEnd(width)} ${total}  ${earlier}${shown.join("  ")}`);
  }
}

async function showHistory(given: string, { json, sort }: HistoryOptions, terminal: Terminal): Promise<void> {
  const index = await new ObservedIndex(await observeDirectory(given)).read();
  const scenarios = (await scenariosOf(index)).map(scenarioView);
  if (sort) scenarios.sort((a, b) => rateOf(a) - rateOf(b));
  if (json) return terminal.line(jsonText(scenarios));
  if (scenarios.length === 0) return terminal.line("no update has ended yet");
  printHistory(terminal, scenarios);
}

/** Adds the command to `svc scenarios`. */
export function addHistoryCommand(scenarios: Command, { terminal }: CliContext): void {
  scenarios.command("history").description("how often the scenarios of a run passed in each update")
    .argument("<run>", "folder of a run with [observe], or of its trajectories")
    .option("--sort", "those that pass least often first; without it in the order of their file")
    .option("--json", "print one JSON document")
    .action((given: string, options: HistoryOptions) => showHistory(given, options, terminal));
}
