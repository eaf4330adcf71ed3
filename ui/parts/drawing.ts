/** Draws lines and stacked bars with uPlot. In a chunk of its own. */

import uPlot from "uplot";
import { barRoom, edgesOf, flatRange, placeAfter, WHOLE_DISTANCES } from "./chart_places.ts";
import { numberText } from "./format.ts";
import { positive, smoothed, stacked } from "./smooth.ts";

/** A line of a chart. */
export interface Line {
  label: string;
  /** Its name in the legend; absent: the label. */
  legend?: string;
  /** Whether its values are shares of 1. */
  is_share?: boolean;
  /** The number of its colour, 1 to 10. */
  colour: number;
  x: readonly number[];
  values: readonly (number | null)[];
  /** Lengths of its dashes and gaps in pixels; absent or empty: drawn through. */
  dash?: readonly number[];
  /** Between which values the line lies, with the same x. */
  band?: { low: readonly (number | null)[]; high: readonly (number | null)[] };
}

/** What the x of a chart is. */
export interface XAxis {
  label: string;
  /** A place as people read it; absent: as a number. */
  text?: (place: number) => string;
  /** Distances between the ticks, smallest first; absent: 1, 2 and 5 times powers of ten. */
  distances?: readonly number[];
}

/** A part of the x axis; null: up to the end of the lines. */
export interface Zoom {
  from: number | null;
  to: number | null;
}

/** What a chart shows. */
export interface Drawn {
  /** Absent: everything. */
  zoom?: Zoom;
  /** Absent: updates. */
  x_axis?: XAxis;
  lines: readonly Line[];
  /** The weight of the past in the smoothed line; 0 draws the values themselves. */
  smoothing: number;
  is_log: boolean;
  /** What happened at each place; null where nothing did. Absent: nothing at all. */
  marksAt?: (places: readonly number[]) => readonly (string | null)[];
  /** Draws the values of all lines on each other as bars; without smoothing, logarithm and bands. */
  is_stacked?: boolean;
}

const HEIGHT = 200;
const FAINT = "55", BAND = "22";
/** The width of a bar as a part of its place, and its largest width in pixels. */
const BAR: [part: number, most: number] = [0.92, 48];

/** A column of uPlot: the values of one line, at the x of all lines. */
interface Column {
  series: uPlot.Series;
  values: Value[];
  /** The upper edge of a band, whose lower one is the next column: the fill between them. */
  band?: string;
}

type Value = number | null | undefined;

/** Values at other x. A place that the line does not have is undefined: it is drawn over, unlike a null. */
function placed(x: readonly number[], values: readonly (number | null)[], all: readonly number[]): Value[] {
  if (x === all) return [...values];
  const at = new Map(x.map((place, i) => [place, values[i] ?? null]));
  return all.map((place) => at.get(place));
}

function allPlaces(lines: readonly Line[]): readonly number[] {
  if (lines.length === 1) return lines[0]!.x;
  return [...new Set(lines.flatMap(({ x }) => x))].sort((a, b) => a - b);
}

/** A value in the legend: that under the cursor, or the last one that the line has now. */
function legendText(...[plot, number, column, at]: [uPlot, number | null, number, number | null]): string {
  const values: readonly Value[] = Array.from(plot.data[column]!);
  return numberText(at === null ? values.findLast((value) => value !== undefined) : number);
}

/** The same for a stacked bar: the part's own value, not the sum up to it, and so without the next column's. */
function partText(...[plot, , column, at]: [uPlot, number | null, number, number | null]): string {
  const place = at ?? plot.data[0].length - 1, sum = plot.data[column]![place];
  return numberText(sum === undefined || sum === null ? null : sum - (plot.data[column + 1]?.[place] ?? 0));
}

/** The columns of a line: the values, faint when there is a smoothed line above them. */
function columnsOf(line: Line, { all, drawn: { smoothing, is_log }, style }: {
  all: readonly number[];
  drawn: Drawn;
  style: CSSStyleDeclaration;
}): Column[] {
  const stroke = style.getPropertyValue(`--series-${line.colour}`).trim();
  const shown = (values: readonly (number | null)[]) =>
    placed(line.x, is_log ? positive(values) : values, all);
  const name = line.legend ?? line.label;
  const dash = line.dash && line.dash.length > 0 ? { dash: [...line.dash] } : {};
  const base = { ...dash, scale: "y", width: 1.5, points: { show: line.x.length < 60, size: 4 } };
  const raw: Column = {
    series: { ...base, label: name, stroke, value: legendText },
    values: shown(line.values),
  };
  const band = line.band
    ? [line.band.high, line.band.low].map((values, i): Column => ({
      series: {
        ...base,
        label: i === 0 ? "max" : "min",
        width: 0,
        points: { show: false },
        value: legendText,
      },
      values: shown(values),
      ...(i === 0 && { band: stroke + BAND }),
    }))
    : [];
  if (smoothing === 0) return [...band, raw];
  raw.series = {
    ...raw.series,
    stroke: stroke + FAINT,
    label: line.legend === undefined ? `${name} (raw)` : "raw",
    width: 1,
  };
  return [...band, raw, {
    series: { ...base, label: name, stroke, points: { show: false }, value: legendText },
    values: shown(smoothed(line.values, smoothing)),
  }];
}

/** The columns of stacked bars, the highest first, so that each covers the lower part of the one before. */
function stackedColumns(
  lines: readonly Line[],
  all: readonly number[],
  style: CSSStyleDeclaration,
): Column[] {
  const own = lines.map(({ x, values }) => placed(x, values, all).map((value) => value ?? null));
  const sums = stacked(own);
  return lines.map(({ label, colour }, i): Column => {
    const fill = style.getPropertyValue(`--series-${colour}`).trim();
    return {
      series: {
        ...{ label, scale: "y", stroke: fill, fill, width: 0, points: { show: false } },
        paths: uPlot.paths.bars!({ size: BAR }),
        value: partText,
      },
      values: sums[i]!,
    };
  }).reverse();
}

/** Half the width and the height of a mark, in pixels of the style sheet. */
const MARK = 4;

/** The events of the cursor that charts share: a part that is dragged over is chosen in one of them. */
const SHARED_EVENTS = ["mousemove", "mouseleave"];

export interface DrawingOptions {
  /** Charts with the same key share their cursor. */
  cursor: string;
  onZoom: (zoom: Zoom) => void;
  /** Told what happened under the cursor; null when nothing did. */
  onMark: (text: string | null) => void;
}

/** A chart in an element. Dragging chooses a part of it, a double click everything. */
export class Drawing {
  readonly #box: HTMLElement;
  readonly #cursor: string;
  readonly #onZoom: (zoom: Zoom) => void;
  readonly #observer: ResizeObserver;
  readonly #theme = matchMedia("(prefers-color-scheme: dark)");
  readonly #onMark: (text: string | null) => void;
  /** What happened at each place. */
  #marks: readonly (string | null)[] = [];
  /** Beside the first and the last bar. */
  #bar_room = 0.5;
  #plot: uPlot | null = null;
  /** What the plot was made for; a change of it needs another plot. */
  #shape = "";
  #drawn: Drawn | null = null;

  constructor(box: HTMLElement, { cursor, onZoom, onMark }: DrawingOptions) {
    this.#box = box;
    this.#cursor = cursor;
    this.#onZoom = onZoom;
    this.#onMark = onMark;
    this.#observer = new ResizeObserver(() => {
      if (box.clientWidth > 0) this.#plot?.setSize({ width: box.clientWidth, height: HEIGHT });
    });
    this.#observer.observe(box);
    this.#theme.addEventListener("change", this.#redraw);
  }

  draw(drawn: Drawn): void {
    this.#drawn = drawn;
    // There is nothing to draw yet.
    if (drawn.lines.length === 0) return;
    const style = getComputedStyle(this.#box), all = allPlaces(drawn.lines);
    this.#marks = drawn.marksAt?.(all) ?? [];
    this.#bar_room = barRoom(all);
    const columns = drawn.is_stacked
      ? stackedColumns(drawn.lines, all, style)
      : drawn.lines.flatMap((line) => columnsOf(line, { all, drawn, style }));
    const data = [all, ...columns.map(({ values }) => values)] as uPlot.AlignedData;
    const shape = JSON.stringify([
      drawn.is_log,
      drawn.x_axis?.label,
      columns.map(({ series }) => [series.label, series.stroke, series.dash]),
    ]);
    if (!this.#plot || shape !== this.#shape) {
      this.#plot?.destroy();
      this.#plot = new uPlot(this.#options(drawn, { columns, style }), data, this.#box);
      this.#shape = shape;
      return;
    }
    this.#plot.setData(data);
  }

  /** The part of the x axis that is shown. Of a single place uPlot gives a range that it has made itself. */
  #edges(places: ArrayLike<number>): [number, number] {
    const { zoom, is_stacked = false } = this.#drawn!;
    return edgesOf(places, { ...zoom, bar_room: is_stacked ? this.#bar_room : null });
  }

  #choose(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width === 0) return;
    const [from, to] = [left, left + width].map((x) => plot.posToVal(x, "x")) as [number, number];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#onZoom({ from: Math.max(0, Math.floor(from)), to: Math.ceil(to) });
  }

  /** Moves the cursor as a key says. @returns What is there, in words; null when the key moves nothing. */
  move(key: string): string | null {
    const plot = this.#plot;
    if (!plot) return null;
    const x = plot.data[0], { min = -Infinity, max = Infinity } = plot.scales.x!;
    const shown = {
      first: x.findIndex((place) => place >= min!),
      last: x.findLastIndex((place) => place <= max!),
    };
    const at = placeAfter(key, plot.cursor.idx ?? null, shown);
    if (at === null || shown.first < 0) return null;
    plot.setCursor({ left: plot.valToPos(x[at]!, "x"), top: HEIGHT / 2 });
    const values = plot.series.map(({ label, value }, i) => {
      const text = (value as (...given: unknown[]) => string)(plot, plot.data[i]![at], i, at);
      return `${label} ${text}`;
    });
    const happened = this.#marks[at];
    return [...values, ...(happened ? [happened] : [])].join(", ");
  }

  /** Draws a triangle above each place where something happened. */
  #drawMarks({ ctx, bbox, data: [x], valToPos, scales }: uPlot): void {
    const { min, max } = scales.x!, size = MARK * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = getComputedStyle(this.#box).getPropertyValue("--quiet").trim();
    for (const [i, place] of x.entries()) {
      if (!this.#marks[i] || place < min! || place > max!) continue;
      const left = valToPos(place, "x", true);
      ctx.beginPath();
      ctx.moveTo(left - size, bbox.top);
      ctx.lineTo(left + size, bbox.top);
      ctx.lineTo(left, bbox.top + 2 * size);
      ctx.fill();
    }
    ctx.restore();
  }

  /** Takes the cursor away. */
  leave(): void {
    this.#plot?.setCursor({ left: -10, top: -10 });
  }

  /** How far the values reach on the y axis. */
  #values(low: number | null, high: number | null): [number | null, number | null] {
    const { lines, is_stacked = false } = this.#drawn!;
    if (low === null || high === null) return [null, null];
    if (is_stacked) return [0, high * 1.05 || 1];
    const is_share = lines.every(({ is_share = false }) => is_share);
    return flatRange(low, high, is_share) ?? uPlot.rangeNum(low, high, 0.1, true);
  }

  close(): void {
    this.#observer.disconnect();
    this.#theme.removeEventListener("change", this.#redraw);
    this.#plot?.destroy();
  }

  readonly #redraw = () => {
    this.#shape = "";
    if (this.#drawn) this.draw(this.#drawn);
  };

  #options({ is_log, x_axis = { label: "update" } }: Drawn, { columns, style }: {
    columns: readonly Column[];
    style: CSSStyleDeclaration;
  }): uPlot.Options {
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis: uPlot.Axis = {
      stroke: colour("--quiet"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false },
      font: `11px ${colour("--font")}`,
    };
    // Column 0 of uPlot is x.
    const bands = columns.flatMap(({ band }, i): uPlot.Band[] =>
      band === undefined ? [] : [{ series: [i + 1, i + 2], fill: band }]
    );
    const { label, text = (place: number) => place.toLocaleString("en"), distances = WHOLE_DISTANCES } =
      x_axis;
    const places: uPlot.Axis = {
      ...axis,
      size: 30,
      values: (_, splits) => splits.map(text),
      incrs: [...distances],
    };
    return {
      width: this.#box.clientWidth || 400,
      height: HEIGHT,
      scales: {
        x: { time: false, range: ({ data: [x] }) => this.#edges(x) },
        y: is_log ? { distr: 3 } : { range: (_, low, high) => this.#values(low, high) },
      },
      axes: [places, { ...axis, size: 56, values: (_, splits) => splits.map(numberText) }],
      cursor: {
        sync: {
          key: this.#cursor,
          filters: { pub: (type) => SHARED_EVENTS.includes(type), sub: () => true },
        },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => (this.#onZoom({ from: null, to: null }), null) },
      },
      hooks: {
        setSelect: [(plot) => this.#choose(plot)],
        setCursor: [({ cursor: { idx } }) => this.#onMark(this.#marks[idx ?? -1] ?? null)],
        draw: [(plot) => this.#drawMarks(plot)],
      },
      legend: { live: true },
      series: [
        { label, value: (_, place) => place === null ? "last" : text(place) },
        ...columns.map(({ series }) => series),
      ],
      bands,
    };
  }
}
