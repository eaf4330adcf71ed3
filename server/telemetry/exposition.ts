/** Metrics as Prometheus text. @source https://prometheus.io/docs/instrumenting/exposition_formats/ */

/** The media type of the text, with the format's version. */
export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

type Labels = Readonly<Record<string, string>>;

export interface Sample {
  value: number;
  labels?: Labels;
  /** The part of a histogram. */
  suffix?: "_bucket" | "_sum" | "_count";
}

/** A metric with all of its samples. The name of a counter ends in `_total`, one with a unit in its base unit. */
export interface Family {
  name: string;
  type: "counter" | "gauge" | "histogram";
  help: string;
  samples: readonly Sample[];
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function labelsText(labels: Labels | undefined): string {
  const pairs = Object.entries(labels ?? {}).map(([name, value]) =>
    `${name}="${escapeHelp(value).replaceAll('"', '\\"')}"`
  );
  return pairs.length > 0 ? `{${pairs.join(",")}}` : "";
}

/** A number in the syntax of Go, which the format uses. */
function numberText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  return Number.isFinite(value) ? String(value) : value > 0 ? "+Inf" : "-Inf";
}

/** The text of all metrics. */
export function exposition(families: readonly Family[]): string {
  return families.map(({ name, type, help, samples }) =>
    `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n` +
    samples.map(({ value, labels, suffix = "" }) =>
      `${name}${suffix}${labelsText(labels)} ${numberText(value)}\n`
    ).join("")
  ).join("");
}

/** Counts values in buckets with upper limits, as a histogram does. */
export class Histogram {
  readonly #limits: readonly number[];
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  /** @param limits The buckets' upper limits, rising. */
  constructor(limits: readonly number[]) {
    this.#limits = limits;
    this.#counts = limits.map(() => 0);
  }

  add(value: number): void {
    const bucket = this.#limits.findIndex((limit) => value <= limit);
    if (bucket >= 0) this.#counts[bucket]!++;
    this.#sum += value;
    this.#count++;
  }

  /** The samples: each bucket has all values up to its limit. */
  samples(labels: Labels): Sample[] {
    let count = 0;
    const buckets = this.#limits.map((limit, i): Sample => {
      count += this.#counts[i]!;
      return { suffix: "_bucket", labels: { ...labels, le: numberText(limit) }, value: count };
    });
    return [
      ...buckets,
      { suffix: "_bucket", labels: { ...labels, le: "+Inf" }, value: this.#count },
      { suffix: "_sum", labels, value: this.#sum },
      { suffix: "_count", labels, value: this.#count },
    ];
  }
}

/** Counters by their labels. */
export class Counter {
  readonly #values = new Map<string, { labels: Labels; value: number }>();

  add(labels: Labels, value = 1): void {
    const key = JSON.stringify(Object.values(labels)), found = this.#values.get(key);
    if (found) found.value += value;
    else this.#values.set(key, { labels, value });
  }

  samples(): Sample[] {
    return [...this.#values.values()].map(({ labels, value }) => ({ labels, value }));
  }
}
