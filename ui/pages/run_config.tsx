/** A run's resolved configuration, with the source of each value. */

import type { Run } from "../../api/types.ts";
import { ListTable } from "../parts/list_table.tsx";
import { place, replacePlace } from "../routes.ts";
import { GIVEN, leavesOf, sourceOf } from "./config_leaves.ts";

/** The keys whose name, value or source has a text. */
function found(leaves: readonly (readonly [name: string, text: string, source: string])[], typed: string) {
  const wanted = typed.toLowerCase();
  return leaves.filter((leaf) => leaf.some((part) => part.toLowerCase().includes(wanted)));
}

export function RunConfig({ run }: { run: Run }) {
  const { segments, query } = place.value, typed = query.get("key") ?? "";
  const leaves = leavesOf(run.config).map(([name, text]) =>
    [name, text, sourceOf(run.plan?.sources, name)] as const
  );
  if (leaves.length === 0) return <p class="quiet">View mode has no configuration.</p>;
  const shown = found(leaves, typed);
  return (
    <>
      <label class="field config-filter">
        <span>Key, value or source</span>
        <input
          type="search"
          placeholder={GIVEN}
          value={typed}
          onInput={({ currentTarget }) => replacePlace(segments, { key: currentTarget.value })}
        />
      </label>
      {shown.length === 0 && <p class="quiet">No key has this text.</p>}
      <ListTable columns={["Key", "Value", "Source"]} kind="config run-config">
        {shown.map(([name, text, source]) => (
          <tr key={name}>
            <th scope="row">
              <code>{name}</code>
            </th>
            <td>
              <code>{text}</code>
            </td>
            <td class={source === GIVEN ? "given" : "quiet"}>{source}</td>
          </tr>
        ))}
      </ListTable>
    </>
  );
}
