/** A table with a line for each item; it scrolls by itself where the page is narrow. */

import type { ComponentChildren } from "preact";

/** A column's heading, or one above numbers, or one that is more than text. */
export type Column = string | { number: string } | { name: string; heading: ComponentChildren };

function Heading({ column }: { column: Column }) {
  if (typeof column === "string") return <th scope="col">{column}</th>;
  if ("heading" in column) return <th scope="col">{column.heading}</th>;
  return <th scope="col" class="number">{column.number}</th>;
}

function nameOf(column: Column): string {
  return typeof column === "string" ? column : "heading" in column ? column.name : column.number;
}

export function ListTable({ columns, kind = "", children }: {
  columns: readonly Column[];
  /** A further class of the table. */
  kind?: string;
  /** Its rows. */
  children: ComponentChildren;
}) {
  return (
    <div class="table-scroll" tabIndex={0}>
      <table class={`list ${kind}`}>
        <thead>
          <tr>
            {columns.map((column) => <Heading key={nameOf(column)} column={column} />)}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
