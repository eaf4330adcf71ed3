/** A table with a line for each item; it scrolls by itself where the page is narrow. */

import type { ComponentChildren } from "preact";

/** A column's heading, or one above numbers. */
export type Column = string | { number: string };

export function ListTable({ columns, kind = "", children }: {
  columns: readonly Column[];
  /** A further class of the table. */
  kind?: string;
  /** Its rows. */
  children: ComponentChildren;
}) {
  return (
    <div class="table-scroll">
      <table class={`list ${kind}`}>
        <thead>
          <tr>
            {columns.map((column) =>
              typeof column === "string"
                ? <th key={column} scope="col">{column}</th>
                : <th key={column.number} scope="col" class="number">{column.number}</th>
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
