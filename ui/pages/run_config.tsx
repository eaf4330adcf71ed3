/** A run's resolved configuration, with the source of each value. */

import type { Run } from "../../api/types.ts";

/** The leaves of a configuration by dotted name. */
export function leavesOf(value: unknown, name = ""): [name: string, text: string][] {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([key, inner]) =>
      leavesOf(inner, name === "" ? key : `${name}.${key}`)
    );
  }
  return [[name, JSON.stringify(value)]];
}

export function RunConfig({ run }: { run: Run }) {
  const leaves = leavesOf(run.config);
  if (leaves.length === 0) return <p class="quiet">View mode has no configuration.</p>;
  return (
    <div class="table-scroll">
      <table class="list config">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Value</th>
            <th scope="col">Source</th>
          </tr>
        </thead>
        <tbody>
          {leaves.map(([name, text]) => (
            <tr key={name}>
              <th scope="row">
                <code>{name}</code>
              </th>
              <td>
                <code>{text}</code>
              </td>
              <td class="quiet">{run.plan?.sources[name] ?? "given"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
