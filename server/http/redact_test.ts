import assert from "node:assert/strict";
import { pathsIn, Redactor } from "./redact.ts";

Deno.test("a path keeps its last part only, wherever it stands in a sentence", () => {
  const redactor = new Redactor([]);
  const cases: [string, string][] = [
    ["Cannot read /srv/m.gguf: there is no such file", "Cannot read <path>/m.gguf: there is no such file"],
    ["/srv/a/b.jsonl:3: is not JSON", "<path>/b.jsonl:3: is not JSON"],
    ['"/srv/x y/a.gguf", and (/etc/passwd).', '"<path>/a.gguf", and (<path>/passwd).'],
    ["model.path=/m.gguf;/srv/data/", "model.path=<path>/data"],
    ["at file:///srv/it's/x.ts:1:2", "at <path>/x.ts:1:2"],
    ["`/srv/a,b/c`", "`<path>/c`"],
    ["-/srv/x, //srv/x, ~/srv/x, ~me/srv/x, >/srv/x", "-<path>/x, <path>/x, <path>/x, <path>/x, ><path>/x"],
    ["</srv/x [/srv/y] {/srv/z}", "<<path>/x [<path>/y] {<path>/z}"],
    [
      "no path: 1/2, and/or, ./a/b, ../a/b, é/b, a/b, / and //",
      "no path: 1/2, and/or, ./a/b, ../a/b, é/b, a/b, / and //",
    ],
    ["<think></think> and <br/>", "<think></think> and <br/>"],
    ["see https://x.org/a/b and GET /v1/runs", "see https://x.org/a/b and GET /v1/runs"],
    ["https://x.org/a, file:///a/b", "https://x.org/a, <path>/b"],
    ["<path>/a", "<path>/a"],
    ["", ""],
  ];
  for (const [prose, expected] of cases) assert.equal(redactor.text(prose), expected);
});

Deno.test("a known path may have spaces, and may follow a letter", () => {
  const redactor = new Redactor(["/srv/my own models", "/srv/a b c.gguf"]);
  assert.equal(
    redactor.text("Cannot read /srv/my own models/sub/x.gguf nor /srv/a b c.gguf: no"),
    "Cannot read <path>/x.gguf nor <path>/a b c.gguf: no",
  );
  const known = new Redactor(["/srv/include", "/data"]);
  assert.equal(
    known.text("-I/srv/include/a.h -I/srv/included, 10 bits/data"),
    "-I<path>/a.h -I/srv/included, 10 bits/data",
  );
});

Deno.test("of what a program printed only the server's folders are known, wherever they stand", () => {
  const redactor = new Redactor(["/srv/data", "/srv/data/my models", "/tmp"], ["/named"]);
  const cases: [string, string][] = [
    ['File "/srv/data/runs/1/a.py", line 3', 'File "<path>/runs/1/a.py", line 3'],
    ["-I/srv/data/x -I/srv/database /srv/data2", "-I<path>/x -I/srv/database /srv/data2"],
    ["/srv/data/my models/a.gguf /tmp/x 1/tmp .../tmp", "<path>/a.gguf <path>/x 1/tmp .../tmp"],
    ["cd /work; cat /named/a /etc/passwd", "cd /work; cat /named/a /etc/passwd"],
    ["https://x.org/srv/data/a file:///srv/data/a", "https://x.org/srv/data/a file://<path>/a"],
    ["</tmp> no path", "</tmp> no path"],
    ["/srv/data", "<path>"],
    ["", ""],
  ];
  for (const [printed, expected] of cases) assert.equal(redactor.printed(printed), expected);
  assert.deepEqual(redactor.found, ["/srv/data", "/srv/data/my models", "/tmp"]);
  assert.equal(new Redactor(["/"]).printed("/srv/data"), "/srv/data");
  assert.deepEqual(redactor.deep({ a: ["/tmp/x", 1, null] }, "printed"), { a: ["<path>/x", 1, null] });
});

Deno.test("the paths of a request are found at any depth, up to limits", () => {
  assert.deepEqual(pathsIn({ a: [{ b: "/x" }, "y/z"], c: "/w", d: null }).sort(), ["/w", "/x"]);
  assert.equal(pathsIn(Array.from({ length: 5000 }, () => "/x")).length, 200);
  let deep: unknown = "/x";
  for (let i = 0; i < 1e5; i++) deep = [deep];
  assert.deepEqual(pathsIn(deep), []);
});

Deno.test("the shortened paths are kept for the log, and a value is one path or none", () => {
  const redactor = new Redactor(["/srv/my own"]);
  redactor.text("/srv/my own/a, /etc/b. GET /v1/runs, /etc/b");
  assert.deepEqual(redactor.found, ["/srv/my own/a", "/etc/b"]);
  const values = ["/srv/a b.gguf", "~/a", "ds_01", "a/b", ""].map((value) => redactor.path(value));
  assert.deepEqual(values, ["<path>/a b.gguf", "<path>/a", "ds_01", "a/b", ""]);
  for (let i = 0; i < 1000; i++) redactor.text(`/x/${i}`);
  assert.equal(redactor.found.length, 100);
});

Deno.test("a text is read in time that grows with its length only", () => {
  // Each would take minutes with a pattern that starts again at every character.
  for (const piece of ["a.", "/a ", "~a/", "</", "/ ", "https:", "a://"]) {
    const text = piece.repeat(200_000);
    const redactor = new Redactor(["/srv/a b", "/tmp"]);
    assert.ok(redactor.text(text).length > 0 && redactor.printed(text).length > 0);
  }
});

Deno.test("of a problem the prose and all texts of meta are shortened, and pointers stay", () => {
  const document = {
    ...{ type: "urn:x", title: "/t/x", status: 422, trace_id: "1" },
    detail: "/params/x/y names /srv/a/x",
    errors: [{
      pointer: "/params/x/y",
      code: "invalid_value" as const,
      message: "/srv/a/x",
      hint: "/srv/b/y",
    }],
    meta: {
      ...{ overflow_bytes: 1, vram_budget_bytes: 0, ram_budget_bytes: 2, levers_applied: [], unlocks: [] },
      dominant_posts: [{ post: "/srv/a/z", bytes: 1 }],
    },
    error: {
      ...{ message: "/params/x/y names /srv/a/x", code: "invalid_value", param: null },
      type: "invalid_request_error" as const,
    },
  };
  const { detail, errors, meta, error } = new Redactor([]).problem(document);
  assert.deepEqual(error, { ...document.error, message: detail });
  assert.equal(detail, "/params/x/y names <path>/x");
  assert.deepEqual(errors, [{ ...document.errors[0], message: "<path>/x", hint: "<path>/y" }]);
  assert.deepEqual(meta, { ...document.meta, dominant_posts: [{ post: "<path>/z", bytes: 1 }] });
});

Deno.test("the version depends on the server's folders, whatever their order", () => {
  const versionOf = (...folders: string[]) => new Redactor(folders, ["/named"]).version;
  assert.equal(versionOf("/a", "/b"), versionOf("/b", "/a"));
  assert.notEqual(versionOf("/a", "/b"), versionOf("/a"));
});
