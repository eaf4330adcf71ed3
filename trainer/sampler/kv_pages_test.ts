import { deepEqual, equal, throws } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { ReferencePool } from "./kv_pages.ts";

Deno.test("an index that was held before is allocated first, and an index without holders is free", () => {
  const pool = new ReferencePool(3, "pages");
  deepEqual([pool.take(), pool.take(), pool.take()], [0, 1, 2]);
  deepEqual([pool.used, pool.available], [3, 0]);
  equal(pool.share(1), 1);
  equal(pool.isShared(1), true);
  pool.release(1);
  deepEqual([pool.isShared(1), pool.available], [false, 0], "one holder is left");
  pool.release(1);
  deepEqual([pool.used, pool.available], [2, 1]);
  equal(pool.take(), 1);
});

Deno.test("all held indices are below the extent, which starts again when none is held", () => {
  const pool = new ReferencePool(4, "pages");
  equal(pool.extent, 0);
  pool.take();
  pool.take();
  pool.release(0);
  deepEqual([pool.extent, pool.used], [2, 1]);
  deepEqual([pool.take(), pool.extent], [0, 2]);
  pool.release(0);
  pool.release(1);
  deepEqual([pool.extent, pool.used, pool.available], [0, 0, 4]);
  deepEqual([pool.take(), pool.take(), pool.take(), pool.take(), pool.available], [0, 1, 2, 3, 0]);
});

Deno.test("the error of an empty pool names its items", () => {
  const pool = new ReferencePool(1, "pages of the key/value cache");
  pool.take();
  throws(
    () => pool.take(),
    new ServiceError("out_of_memory", "Cannot hold more than 1 pages of the key/value cache at a time"),
  );
});

Deno.test("an index without holders can be neither shared nor released", () => {
  const pool = new ReferencePool(2, "pages");
  throws(() => pool.share(0), /Assertion failed: pages 0 is held/);
  throws(() => pool.release(1), /Assertion failed: pages 1 is held/);
});
