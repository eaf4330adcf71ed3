/** A line chart. The drawing library is loaded with the first one. */

import { useEffect, useRef } from "preact/hooks";
import type { Drawing, Drawn } from "./drawing.ts";

export interface ChartProps extends Drawn {
  title: string;
  /** Charts with the same key share their cursor. */
  cursor: string;
}

/** What a reader that does not see the chart is told. */
function inWords({ title, lines }: ChartProps): string {
  const texts = lines.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    return `${label}: ${known.length} values, last ${known.at(-1) ?? "none"}`;
  });
  return `${title}. ${texts.join("; ")}`;
}

export function Chart(props: ChartProps) {
  const { title, cursor, ...drawn } = props;
  const box = useRef<HTMLDivElement>(null), drawing = useRef<Drawing | null>(null);
  const newest = useRef<Drawn>(drawn);
  newest.current = drawn;
  useEffect(() => {
    let is_gone = false;
    import("./drawing.ts").then(({ Drawing }) => {
      if (is_gone) return;
      drawing.current = new Drawing(box.current!, cursor);
      drawing.current.draw(newest.current);
    });
    return () => {
      is_gone = true;
      drawing.current?.close();
      drawing.current = null;
    };
  }, [cursor]);
  useEffect(() => drawing.current?.draw(drawn));
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={box} class="plot" role="img" aria-label={inWords(props)} />
    </figure>
  );
}
