/** What differs in the configurations of several runs. */

import { ListTable } from "../parts/list_table.tsx";
import { runColumns } from "../parts/run_mark.tsx";
import { place } from "../routes.ts";
import { allKeys, differingKeys } from "./compare_rows.ts";
import { changeQuery, type ComparedProps } from "./compare_view.ts";

export function CompareConfig({ runs, compared }: ComparedProps) {
  const shows_all = place.value.query.get("keys") === "all";
  const rows = shows_all ? allKeys(compared, runs.map(({ config }) => config)) : differingKeys(compared);
  return (
    <section aria-label="configuration">
      <div class="filters">
        <label class="check">
          <input
            type="checkbox"
            checked={shows_all}
            onChange={({ currentTarget }) => changeQuery({ keys: currentTarget.checked ? "all" : null })}
          />
          Also keys that are equal
        </label>
      </div>
      {rows.length === 0
        ? <p>The configurations are equal, but for names and paths of the runs.</p>
        : (
          <ListTable columns={["Key", ...runColumns(runs)]} kind="config compare-config">
            {rows.map(({ key, values, differs }) => (
              <tr key={key} class={differs ? "differs" : undefined}>
                <th scope="row">
                  <code>{key}</code>
                </th>
                {values.map((value, at) => (
                  <td key={at}>
                    {value === null ? <span class="quiet">not set</span> : <code>{value}</code>}
                  </td>
                ))}
              </tr>
            ))}
          </ListTable>
        )}
    </section>
  );
}
