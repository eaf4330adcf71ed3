/** A chart of lines or of stacked bars. The drawing library is loaded with the first one that comes into view. */

import { useEffect, useRef, useState } from "preact/hooks";
import { countUnshown } from "./chart_places.ts";
import type { Drawing, Drawn, Zoom } from "./drawing.ts";

export interface ChartProps extends Drawn {
  title: string;
  /** Charts with the same key share their cursor. */
  cursor: string;
  /** A part of the x axis was chosen; it is shown when it comes back as `zoom`. Called as it first was. */
  onZoom: (zoom: Zoom) => void;
  /** A remark beside the title. */
  note?: string;
  /** How many entries the legend has room for at least, when further lines may come. */
  legend_entries?: number;
}

/** The entries of a legend, for which the style sheet keeps room, so that nothing moves when the drawing comes. */
function entriesOf({ lines, smoothing, is_stacked = false }: Drawn, least: number): number {
  const entries = lines.map(({ band }) => is_stacked ? 1 : 1 + (band ? 2 : 0) + (smoothing > 0 ? 1 : 0));
  return 1 + Math.max(least, entries.reduce((sum, n) => sum + n, 0));
}

/** How far from the window a chart is drawn already. */
const BEFORE_VIEW = "300px";

/** What a reader that does not see the chart is told. */
function inWords({ title, lines, zoom }: ChartProps): string {
  const texts = lines.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    return `${label}: ${known.length} values, last ${known.at(-1) ?? "none"}`;
  });
  const is_part = zoom && (zoom.from !== null || zoom.to !== null);
  const part = is_part ? `; shown from ${zoom.from ?? "the start"} to ${zoom.to ?? "the end"}` : "";
  return `${title}. ${texts.join("; ")}${part}`;
}

/** What is to know about the values beside the title. */
function noteOf({ note, is_log, is_stacked = false, lines }: ChartProps): string | undefined {
  const unshown = is_log && !is_stacked ? countUnshown(lines) : 0;
  if (unshown === 0) return note;
  return unshown === 1 ? "one value ≤ 0 is not shown" : `${unshown} values ≤ 0 are not shown`;
}

export function Chart(props: ChartProps) {
  const { title, cursor, onZoom, note: _, legend_entries = 0, ...drawn } = props;
  const [said, say] = useState(""), [happened, setHappened] = useState<string | null>(null);
  const note = happened ?? noteOf(props);
  const box = useRef<HTMLDivElement>(null),
    drawing = useRef<Drawing | null>(null),
    is_in_view = useRef(false);
  const newest = useRef<Drawn>(drawn);
  newest.current = drawn;
  useEffect(() => {
    // The reference may be empty by the time that the code of the drawing is there.
    const element = box.current!;
    let is_gone = false, is_asked = false;
    const draw = () => drawing.current?.draw(newest.current);
    const create = async () => {
      is_asked = true;
      const { Drawing } = await import("./drawing.ts");
      if (is_gone) return;
      drawing.current = new Drawing(element, { cursor, onZoom, onMark: setHappened });
      draw();
    };
    const observer = new IntersectionObserver((entries) => {
      is_in_view.current = entries.at(-1)!.isIntersecting;
      if (!is_in_view.current) return;
      if (is_asked) draw();
      else create();
    }, { rootMargin: BEFORE_VIEW });
    observer.observe(element);
    return () => {
      is_gone = true;
      observer.disconnect();
      drawing.current?.close();
      drawing.current = null;
    };
  }, [cursor]);
  useEffect(() => {
    if (is_in_view.current) drawing.current?.draw(drawn);
  });
  const move = (event: KeyboardEvent) => {
    if (event.key === "Escape") drawing.current?.leave();
    const text = drawing.current?.move(event.key) ?? null;
    if (text === null) return;
    event.preventDefault();
    say(text);
  };
  return (
    <figure class="chart">
      <figcaption>
        <span title={title}>{title}</span>
        {note !== undefined && <span class="quiet">{note}</span>}
      </figcaption>
      <div
        ref={box}
        class="plot"
        role="img"
        aria-label={inWords(props)}
        tabIndex={0}
        onKeyDown={move}
        onBlur={() => drawing.current?.leave()}
        style={{ "--entries": entriesOf(drawn, legend_entries) }}
      />
      <p class="unseen" role="status">{said}</p>
    </figure>
  );
}
