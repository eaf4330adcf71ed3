/** Signed links: each is for one artefact and valid for 60 seconds, until the server ends at the latest. */

import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../core/clock.ts";

const LIFE_SECONDS = 60;

/** A GET request as the listener got it. */
interface LinkedRequest {
  method: string;
  /** As sent. */
  path: string;
  search: string;
}

/** Signs paths, and checks the signatures of requests. */
export class Links {
  readonly #key = randomBytes(32);
  readonly #clock: Clock;
  /** Wall time minus monotonic time when the server started: from then on only monotonic time counts. */
  readonly #offset_ms: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#offset_ms = clock.wall_ms() - clock.monotonic_ms();
  }

  /** A link to a path, and the Unix time at which it expires. */
  sign(path: string): { url: string; expires_at: string } {
    const exp = Math.floor(this.#now_seconds()) + LIFE_SECONDS;
    const url = `${path}?exp=${exp}&sig=${this.#signature(path, String(exp))}`;
    return { url, expires_at: new Date(exp * 1000).toISOString() };
  }

  /** Whether a request has a link of this server that has not expired. */
  admits({ method, path, search }: LinkedRequest): boolean {
    if (method !== "GET" && method !== "HEAD") return false;
    const query = new URLSearchParams(search);
    const [exp, ...more_exp] = query.getAll("exp"), [sig, ...more_sig] = query.getAll("sig");
    if (exp === undefined || sig === undefined || more_exp.length + more_sig.length > 0) return false;
    return isEqual(sig, this.#signature(path, exp)) && this.#now_seconds() < Number(exp);
  }

  #now_seconds(): number {
    return (this.#clock.monotonic_ms() + this.#offset_ms) / 1000;
  }

  #signature(path: string, exp: string): string {
    return createHmac("sha256", this.#key).update(`${exp}\n${path}`).digest("base64url");
  }
}

/** Compares texts in a time that does not depend on where they differ. */
function isEqual(a: string, b: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
