/** Identifiers that sort by time. */

import type { Clock } from "./clock.ts";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** `<prefix>_<ULID>`: 48 bits of milliseconds, then 80 random bits, in Crockford's base 32. */
export function newId(prefix: "run" | "ds", clock: Clock): string {
  let time = clock.wall_ms(), head = "";
  for (let i = 0; i < 10; i++) {
    head = CROCKFORD[time % 32]! + head;
    time = Math.floor(time / 32);
  }
  const tail = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => CROCKFORD[byte % 32]).join(
    "",
  );
  return `${prefix}_${head}${tail}`;
}
