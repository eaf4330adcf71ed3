/** Numbers, sizes and times as people read them. */

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** `1.4 GiB`. */
export function bytesText(bytes: number): string {
  let unit = 0, value = bytes;
  while (value >= 1024 && unit < BYTES.length - 1) value /= 1024, unit++;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${BYTES[unit]}`;
}

/** Up to four significant digits; exponents below 0.001 and from a million on. */
export function numberText(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace(/^-/, "−");
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 }).replace("-", "−");
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** `3.41M`. */
export function countText(count: number): string {
  return COMPACT.format(count);
}

/** Every digit that a value has. */
export function exactText(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return String(value).replace(/^-/, "−");
}

/** `2 d 3 h`, `1:04:09`, `4:09`, `12 s`. */
export function durationText(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const days = Math.floor(whole / 86_400), hours = Math.floor(whole / 3600) % 24;
  if (days > 0) return `${days} d ${hours} h`;
  const two = (n: number) => String(n).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60, rest = two(whole % 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${rest}` : `${minutes}:${rest}`;
}

/** `0.4 ms`, `22 ms`, `1.19 s`, and from a minute on as {@link durationText}. */
export function millisecondsText(ms: number): string {
  if (ms >= 59_950) return durationText(ms / 1000);
  return ms < 999.5
    ? `${ms < 99.5 ? Number(ms.toPrecision(2)) : Math.round(ms)} ms`
    : `${Number((ms / 1000).toPrecision(3))} s`;
}

/** A time to the second with its date, in the reader's time zone. */
export function exactTimeText(time: string): string {
  return new Date(time).toLocaleString(undefined, { dateStyle: "long", timeStyle: "medium" });
}

/** The hour, minute and second of a time in the reader's time zone, with the date when it is not today's. */
export function secondText(time: string, now: Date = new Date()): string {
  const date = new Date(time), is_today = date.toDateString() === now.toDateString();
  return is_today
    ? date.toLocaleTimeString(undefined, { timeStyle: "medium" })
    : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** A time in the reader's time zone: the hour of today, else the date too. */
export function timeText(time: string, now: Date = new Date()): string {
  const date = new Date(time), is_today = date.toDateString() === now.toDateString();
  return is_today
    ? date.toLocaleTimeString(undefined, { timeStyle: "short" })
    : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
