import assert from "node:assert/strict";
import { permissionFlags, permissionsFor } from "./permissions.ts";

const NOTHING = { read: false, write: false, net: false, env: false, run: false, ffi: false };
const NEVER = { sys: false, import: false };

Deno.test("parts that need nothing get nothing", () => {
  assert.deepEqual(permissionsFor([]), { ...NOTHING, ...NEVER });
  assert.deepEqual(permissionsFor([{}, { read: [] }]), { ...NOTHING, ...NEVER });
});

Deno.test("permissions are those of all parts together, each once; all of a kind is all of it", () => {
  const parts = [{ read: ["/a", "/b"], write: ["/w"] }, {
    read: ["/b", "/c"],
    net: ["x.org:443"],
    ffi: ["/l"],
  }];
  assert.deepEqual(permissionsFor(parts), {
    ...{ ...NOTHING, ...NEVER, read: ["/a", "/b", "/c"], write: ["/w"], net: ["x.org:443"], ffi: ["/l"] },
  });
  const { read, run, write } = permissionsFor([...parts, { read: true, run: true }]);
  assert.deepEqual([read, run, write], [true, true, ["/w"]]);
});

Deno.test("flags name what is needed, all of a kind, or nothing; a path with a comma is its nearest folder", () => {
  assert.deepEqual(permissionFlags([]), []);
  const parts = [
    { read: ["/a", "/b,c/d"], net: ["x.org:443", "y.org"] },
    { run: true, write: ["/w/e,f"] } as const,
  ];
  assert.deepEqual(permissionFlags(parts), [
    "--allow-read=/a,/",
    "--allow-write=/w",
    "--allow-net=x.org:443,y.org",
    "--allow-run",
  ]);
});
