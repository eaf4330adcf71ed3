/** What the metrics say about a run, in the server's words. */

import { useState } from "preact/hooks";
import type { RunHealth } from "../../api/types.ts";
import { numberText } from "../parts/format.ts";

const SIGNS = { ok: "✓", warning: "!", critical: "✕" } as const;

const nameOf = (rule: string) => rule.replaceAll("_", " ");

/** All rules in a line that keeps its height, and the advice about broken ones below it. */
export function HealthPanel({ health, is_open: is_open_first }: {
  health: RunHealth | null;
  /** Whether advice is shown before anybody asks: not while events arrive, because it would move what is below. */
  is_open: boolean;
}) {
  const rules = health?.rules ?? [], broken = rules.filter(({ level }) => level !== "ok");
  const [is_open, setOpen] = useState(is_open_first && broken.length > 0),
    held = rules.length - broken.length;
  const rest = rules.length === 0
    ? "nothing to judge yet"
    : broken.length === 0
    ? held === 1 ? "the one rule holds" : `all ${held} rules hold`
    : held === 1
    ? "one other rule holds"
    : `${held} other rules hold`;
  const worst = broken.some(({ level }) => level === "critical") ? "critical" : "warning";
  return (
    <section class="health" aria-label="health">
      <details open={is_open} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          Health
          {/* One text, so that none of it is moved by what comes before it. */}
          <span class={broken.length === 0 ? "quiet" : `level-${worst}`}>
            {[...broken.map(({ rule, level }) => `${SIGNS[level]} ${nameOf(rule)}`), rest].join(" · ")}
          </span>
        </summary>
        <div class="rules">
          {broken.map(({ rule, level, value, threshold, since_update, advice }) => (
            <article key={rule} class={`level-${level}`}>
              <h3>
                <span aria-hidden="true">{SIGNS[level]}</span> {nameOf(rule)}
              </h3>
              <p>{advice}</p>
              <p class="quiet">
                {`${numberText(value)}, the threshold is ${numberText(threshold)}${
                  since_update === null ? "" : `, since update ${since_update}`
                }`}
              </p>
            </article>
          ))}
        </div>
        {broken.length === 0 && <p class="quiet">Broken rules are listed here with what to do.</p>}
      </details>
    </section>
  );
}
