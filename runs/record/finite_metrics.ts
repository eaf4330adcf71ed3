/** Metrics of a log as the API shows them. */

/** The metrics that have a value, by name: a line of JSON has null for one that is not finite. */
export function finiteMetrics(metrics: Readonly<Record<string, number | null>>): Record<string, number> {
  const finite = Object.entries(metrics).filter((entry): entry is [string, number] =>
    Number.isFinite(entry[1])
  );
  return Object.fromEntries(finite);
}
