/**
 * Whether the time to refuse a token tells how much of it is right: tokens that are wrong in their first character and in
 * their last one, measured in random order, compared by Welch's t-test.
 *
 * @source Reparaz, Balasch, Verbauwhede 2017, "Dude, is my code constant time?": |t| above 4.5 is evidence of a leak.
 */

import { hrtime } from "node:process";
import { Rng, rngKey } from "../../core/random.ts";
import { isTokenRight } from "../../server/access/auth.ts";
import { rounded, type SoakPart } from "./part.ts";

const TOKEN = "a".repeat(64);

/** The share of the longest times that is left out of both samples: the machine did something else meanwhile. */
const CROPPED = 0.05;

/** |t| from which the samples differ. */
const MOST_T = 4.5;

interface Difference {
  mean_ns: { first: number; last: number };
  t: number;
}

function moments(times: readonly number[]): { n: number; mean: number; variance: number } {
  const n = times.length, mean = times.reduce((sum, time) => sum + time, 0) / n;
  return { n, mean, variance: times.reduce((sum, time) => sum + (time - mean) ** 2, 0) / (n - 1) };
}

/** Whether a header is right; a comparison of the server, or another one. */
type Compares = (header: string, token: string) => boolean;

/** Ends at the first character that differs. */
const leaks: Compares = (header, token) => {
  const expected = `Bearer ${token}`;
  for (let i = 0; i < expected.length; i++) if (header[i] !== expected[i]) return false;
  return header.length === expected.length;
};

/** @param samples Of each kind. */
function compare(isRight: Compares, { samples, seed }: { samples: number; seed: number }): Difference {
  const rng = new Rng(rngKey(seed, "token_timing"));
  const headers = { first: `Bearer b${TOKEN.slice(1)}`, last: `Bearer ${TOKEN.slice(1)}b` };
  const times: Record<keyof typeof headers, number[]> = { first: [], last: [] };
  while (times.first.length < samples || times.last.length < samples) {
    const kind = rng.uniform() < 0.5 ? "first" : "last";
    const start = hrtime.bigint();
    isRight(headers[kind], TOKEN);
    const time = Number(hrtime.bigint() - start);
    if (times[kind].length < samples) times[kind].push(time);
  }
  const all = [...times.first, ...times.last].sort((a, b) => a - b);
  const longest = all[Math.floor(2 * samples * (1 - CROPPED))]!;
  const [first, last] = [times.first, times.last].map((all) => moments(all.filter((time) => time < longest)));
  const t = (first!.mean - last!.mean) / Math.sqrt(first!.variance / first!.n + last!.variance / last!.n);
  return { mean_ns: { first: rounded(first!.mean), last: rounded(last!.mean) }, t: rounded(t) };
}

/** S1: how long a token is compared does not tell where it is wrong. */
export const tokenTiming: SoakPart = {
  what: "times the refusal of 2 x 100,000 tokens, wrong in the first and in the last byte",
  full: { count: 100_000, minutes: Infinity },
  run({ count: samples, seed }) {
    const server = compare(isTokenRight, { samples, seed }), leaking = compare(leaks, { samples, seed });
    const failures = Math.abs(server.t) >= MOST_T ? ["the times differ significantly"] : [];
    // Else the measurement would not see a leak.
    if (Math.abs(leaking.t) < MOST_T) {
      failures.push("a comparison that leaks is not told from one that does not");
    }
    return Promise.resolve({ failures, samples, server, leaking });
  },
};
