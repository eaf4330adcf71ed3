/** Shows the progress of a command that is no run. */

import type { ActivityFeed } from "../runs/record/activity.ts";
import type { CliContext } from "./context.ts";
import { ProgressPrinter, TICK_MS } from "./progress.ts";

/** Shows the activity as a status line until the feed is closed. */
export async function followActivity(
  activity: ActivityFeed,
  { terminal, clock }: Pick<CliContext, "terminal" | "clock">,
): Promise<void> {
  const printer = new ProgressPrinter(terminal, clock);
  const timer = setInterval(() => printer.tick(), TICK_MS);
  try {
    for await (const item of activity) printer.show(item);
  } finally {
    clearInterval(timer);
    printer.close();
  }
}
