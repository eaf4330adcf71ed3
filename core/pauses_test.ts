import { equal } from "node:assert/strict";
import { hearWhile } from "./pauses.ts";

/** How often messages are heard in a row if some have arrived so many times. */
async function hearings(arrivals: number): Promise<number> {
  let count = 0;
  await hearWhile(() => count++ < arrivals);
  return count;
}

Deno.test("messages are heard until none has arrived, and at most 16 times in a row", async () => {
  equal(await hearings(0), 1);
  equal(await hearings(3), 4);
  equal(await hearings(Infinity), 16);
});
