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
    ["no path: 1/2, and/or, ./a/b, ~/a, a/b", "no path: 1/2, and/or, ./a/b, ~/a, a/b"],
    ["see https://x.org/a/b and GET /v1/runs", "see https://x.org/a/b and GET /v1/runs"],
    ["<path>/a", "<path>/a"],
    ["", ""],
  ];
  for (const [prose, expected] of cases) assert.equal(redactor.text(prose), expected);
});

Deno.test("a known path may have spaces", () => {
  const redactor = new Redactor(["/srv/my own models", "/srv/a b c.gguf"]);
  assert.equal(
    redactor.text("Cannot read /srv/my own models/sub/x.gguf nor /srv/a b c.gguf: no"),
    "Cannot read <path>/x.gguf nor <path>/a b c.gguf: no",
  );
});

Deno.test("the paths of a request are found at any depth, up to limits", () => {
  assert.deepEqual(pathsIn({ a: [{ b: "/x" }, "y/z"], c: "/w", d: null }).sort(), ["/w", "/x"]);
  assert.equal(pathsIn(Array.from({ length: 5000 }, () => "/x")).length, 1000);
  let deep: unknown = "/x";
  for (let i = 0; i < 1e5; i++) deep = [deep];
  assert.deepEqual(pathsIn(deep), []);
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
    meta: { dominant_posts: [{ post: "/srv/a/z", bytes: 1 }] },
    error: {
      ...{ message: "/params/x/y names /srv/a/x", code: "invalid_value", param: null },
      type: "invalid_request_error" as const,
    },
  };
  const { detail, errors, meta, error } = new Redactor([]).problem(document);
  assert.deepEqual(error, { ...document.error, message: detail });
  assert.equal(detail, "/params/x/y names <path>/x");
  assert.deepEqual(errors, [{ ...document.errors[0], message: "<path>/x", hint: "<path>/y" }]);
  assert.deepEqual(meta, { dominant_posts: [{ post: "<path>/z", bytes: 1 }] });
});

Deno.test("of an answer only prose is shortened: other fields are data", () => {
  const value = {
    config: { model: { path: "/srv/m.gguf" } },
    warnings: [{ code: "x", message: "/srv/m.gguf" }],
    template_probe: { problems: ["/srv/t"] },
    message: { content: "/srv/c" },
  };
  assert.deepEqual(new Redactor([]).json(value), {
    config: value.config,
    warnings: [{ code: "x", message: "<path>/m.gguf" }],
    template_probe: { problems: ["<path>/t"] },
    message: value.message,
  });
});

Deno.test("of events the prose and the paths of files are shortened", async () => {
  const end = "data: [DONE]\n\n";
  const events =
    'id: 1\nevent: artifact\ndata: {"kind":"artifact","path":"/srv/a\\n/b","values":{"x/y":1}}\n\n';
  const stream = new Blob([events, ":\n\n", end]).stream().pipeThrough(new Redactor([]).events());
  assert.equal(
    await new Response(stream).text(),
    'id: 1\nevent: artifact\ndata: {"kind":"artifact","path":"<path>/a\\n<path>/b","values":{"x/y":1}}\n\n:\n\n' +
      end,
  );
});
