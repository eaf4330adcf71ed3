/** The pass rate of attempts at scenarios. */

import type { Rate } from "./event.ts";
import { clusteredInterval, mean } from "./statistics.ts";

/** The mean over scenarios of the share of attempts that passed, with the interval of {@link clusteredInterval}. */
export function passRate(scenarios: readonly { passes: number; attempts: number }[]): Rate {
  const rates = scenarios.map(({ passes, attempts }) => passes / attempts);
  const attempts = scenarios.reduce((sum, scenario) => sum + scenario.attempts, 0);
  return { rate: mean(rates), ...clusteredInterval(rates, attempts), n: scenarios.length, attempts };
}
