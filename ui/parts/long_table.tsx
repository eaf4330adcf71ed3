/** A table of any length: only the rows that can be seen are drawn, and the next page is loaded near the end. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Listing } from "../client/use_pages.ts";
import type { KeyBinding } from "./keys.tsx";
import { ProblemBox } from "./problem.tsx";
import { windowOf } from "./window.ts";

/** A column: its heading, and its width in rem. */
export interface Column {
  label: string;
  /** Where the table has more room, columns become wider in proportion. */
  width: number;
  is_number?: boolean;
}

export interface LongTableProps<T> {
  /** What the rows are, in words. */
  label: string;
  columns: readonly Column[];
  list: Listing<T>;
  /** In pixels; the style sheet gives every row this height. */
  row_height: number;
  keyOf: (item: T) => string | number;
  /** The cells of a row. */
  children: (item: T) => ComponentChildren;
  /** What is shown when there is no item. */
  empty: ComponentChildren;
}

/** Rows before the end of the loaded ones at which the next page is asked for. */
const NEAR_END = 100;

/** How far the body of the table is scrolled past the top of the window, and how much of it the window shows. */
function viewOf(body: Element | null): { top: number; height: number } {
  return { top: -(body?.getBoundingClientRect().top ?? 0), height: innerHeight };
}

/** A row that stands for others; null for none. */
function Space({ rows, row_height }: { rows: number; row_height: number }) {
  return rows > 0
    ? <tr class="space" aria-hidden="true" style={{ height: `${rows * row_height}px` }} />
    : null;
}

export function LongTable<T>(
  { label, columns, list, row_height, keyOf, children, empty }: LongTableProps<T>,
) {
  const body = useRef<HTMLTableSectionElement>(null), { items, is_done, error } = list;
  const [view, setView] = useState({ top: 0, height: globalThis.innerHeight ?? 0 });
  useEffect(() => {
    const abort = new AbortController(), look = () => setView(viewOf(body.current));
    for (const event of ["scroll", "resize"]) {
      addEventListener(event, look, { passive: true, signal: abort.signal });
    }
    look();
    return () => abort.abort();
  }, []);
  const width = columns.reduce((sum, column) => sum + column.width, 0);
  const { first, last } = windowOf(items.length, row_height, view);
  useEffect(() => {
    if (!is_done && error === null && items.length > 0 && last > items.length - NEAR_END) list.more();
  }, [last, items.length, is_done]);
  if (items.length === 0 && error !== null) return <ProblemBox error={error} onRetry={() => list.more()} />;
  if (items.length === 0) {
    return is_done ? <>{empty}</> : <p class="loading" role="status">Loading {label} …</p>;
  }
  return (
    <>
      <p class="quiet list-count" role="status">
        {is_done
          ? `${items.length.toLocaleString("en")} in all`
          : `${items.length.toLocaleString("en")} so far, more as you scroll`}
      </p>
      <div class="table-scroll">
        <table
          class="list long"
          style={{ minWidth: `${width}rem` }}
          aria-label={label}
          aria-rowcount={is_done ? items.length + 1 : -1}
        >
          <colgroup>
            {columns.map(({ label, width }) => <col key={label} style={{ width: `${width}rem` }} />)}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {columns.map(({ label, is_number }) => (
                <th key={label} scope="col" class={is_number ? "number" : undefined}>{label}</th>
              ))}
            </tr>
          </thead>
          <tbody ref={body}>
            <Space rows={first} row_height={row_height} />
            {items.slice(first, last).map((item, i) => (
              <tr key={keyOf(item)} aria-rowindex={first + i + 2} style={{ height: `${row_height}px` }}>
                {children(item)}
              </tr>
            ))}
            <Space rows={items.length - last} row_height={row_height} />
          </tbody>
        </table>
      </div>
      {error !== null && <ProblemBox error={error} onRetry={() => list.more()} />}
    </>
  );
}

/** Moves the focus to the link of the next or previous row of the page's table. */
function moveRow(by: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>("table.long tbody th a")];
  const row = document.activeElement?.closest("tr"),
    at = links.findIndex((link) => link.closest("tr") === row);
  (at < 0 ? links[by > 0 ? 0 : links.length - 1] : links[at + by])?.focus();
}

/** The keys of a table. */
export const ROW_KEYS: readonly KeyBinding[] = [
  { keys: ["j"], what: "next row", action: () => moveRow(1) },
  { keys: ["k"], what: "previous row", action: () => moveRow(-1) },
];
