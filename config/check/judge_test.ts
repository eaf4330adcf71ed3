import assert from "node:assert/strict";
import { checkRunConfig } from "./load.ts";

const BASE = `run.algorithm = "agent_grpo"
model.path = "m.gguf"
agent.scenarios = "s.jsonl"
agent.updates = 1
[agent.judge]
`;

const problemsOf = (lines: string) =>
  checkRunConfig(`${BASE}${lines}\n`, { path: "/c/run.toml" }).problems
    .map(({ key, code, message, hint }) =>
      `${key} ${code}: ${message}${hint === undefined ? "" : `; ${hint}`}`
    );

Deno.test("a judge names its endpoint and its model, and may be the only source of reward", () => {
  const { config } = checkRunConfig(
    `${BASE}base_url = "https://api.example/v1"\nmodel = "m"\ncache_path = "kept.jsonl"`,
    { path: "/c/run.toml" },
  );
  assert.deepEqual(config!.agent!.judge, {
    ...{ type: "ruler", base_url: "https://api.example/v1", model: "m", cache_path: "/c/kept.jsonl" },
    ...{ timeout_secs: 120, permute: true },
  });
  assert.deepEqual(problemsOf(""), [
    'agent.judge.base_url missing_field: is missing: type "ruler" needs it',
    'agent.judge.model missing_field: is missing: type "ruler" needs it',
  ]);
});

Deno.test("an address with a user name or a password is refused without showing it", () => {
  for (const base_url of ["https://user:secret@api.example", "https://secret@api.example/v1"]) {
    assert.deepEqual(problemsOf(`base_url = "${base_url}"\nmodel = "m"`), [
      "agent.judge.base_url invalid_value: must have no user name or password; name the environment variable of a " +
      "key in api_key_env",
    ]);
  }
  assert.match(
    problemsOf('base_url = "http://[x"\nmodel = "m"').join(),
    /base_url invalid_value: is no address/,
  );
});

Deno.test("a file has no catalogue", () => {
  assert.deepEqual(problemsOf('id = "critic"'), [
    "agent.judge.id invalid_value: is an id, and only a server has a catalogue; name its endpoint in " +
    "agent.judge.base_url, and its model in agent.judge.model",
  ]);
});

Deno.test("a judge in the run's own model has no endpoint, and may keep its judgements", () => {
  assert.deepEqual(
    problemsOf('type = "local"\nrubric = "short"\ntimeout_secs = 9\ncache_path = "kept.jsonl"'),
    [],
  );
  const keys = [
    'base_url = "http://x"',
    'model = "m"',
    'api_key_env = "K"',
    "max_chars = 5000",
    "max_retries = 0",
  ];
  assert.deepEqual(
    problemsOf(['type = "local"', ...keys].join("\n")),
    ["base_url", "model", "api_key_env", "max_chars", "max_retries"].map((key) =>
      `agent.judge.${key} invalid_value: has no meaning for type "local", where the run's own base model judges`
    ),
  );
});
