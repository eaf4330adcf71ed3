/** What the metrics say about a run, in the server's words. */

import type { RunHealth } from "../../api/types.ts";
import { numberText } from "../parts/format.ts";

const SIGNS = { ok: "✓", warning: "!", critical: "✕" } as const;

export function HealthPanel({ health }: { health: RunHealth | null }) {
  if (!health || health.rules.length === 0) return null;
  const broken = health.rules.filter(({ level }) => level !== "ok"),
    held = health.rules.length - broken.length;
  return (
    <section class="health" aria-label="health">
      <h2>Health</h2>
      <div class="rules">
        {broken.map(({ rule, level, value, threshold, since_update, advice }) => (
          <article key={rule} class={`level-${level}`}>
            <h3>
              <span aria-hidden="true">{SIGNS[level]}</span> {rule.replaceAll("_", " ")}
            </h3>
            <p>{advice}</p>
            <p class="quiet">
              {numberText(value)}, the threshold is {numberText(threshold)}
              {since_update !== null && `, since update ${since_update}`}
            </p>
          </article>
        ))}
      </div>
      <p class="quiet">
        {broken.length === 0 ? `All ${held} rules hold.` : `${held} other rules hold.`}
      </p>
    </section>
  );
}
