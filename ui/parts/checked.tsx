/** What an attempt was checked by, as its scenario says it. */

import type { TrajectoryTask } from "../../api/types.ts";
import { Code } from "./code.tsx";
import { checksOf } from "./task.ts";

export function Checked({ task }: { task: TrajectoryTask }) {
  const checks = checksOf(task);
  return (
    <article class="checked">
      <header>
        <h3>What was checked</h3>
      </header>
      {checks.length === 0
        ? <p class="quiet">The scenario has no verify command and no rubric.</p>
        : (
          <dl class="arguments">
            {checks.map(([name, text]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <Code text={text} />
                </dd>
              </div>
            ))}
          </dl>
        )}
      <details class="raw">
        <summary>The whole scenario</summary>
        <Code text={JSON.stringify(task, null, 2)} is_whole />
      </details>
    </article>
  );
}
