import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { isLoopback, parseBind, parseBudget, SERVER_LIMITS } from "./schema.ts";
import { parseServerConfig } from "./load.ts";

const load = (text: string) => parseServerConfig(text, { path: "/etc/svc/server.toml" });

/** The problems of a text as `line key code`. */
function problems(text: string): string[] {
  try {
    load(text);
  } catch (error) {
    assert.ok(error instanceof ServiceError && error.code === "config_invalid", String(error));
    const found = error.details.problems as { line: number; key: string; code: string }[];
    return found.map(({ line, key, code }) => `${line} ${key} ${code}`);
  }
  return [];
}

Deno.test("an empty file gives the contract's defaults", () => {
  assert.deepEqual(load(""), {
    bind: "127.0.0.1:8471",
    data_dir: "/etc/svc/svc-data",
    ui: true,
    path_roots: [],
    redact_error_paths: false,
    max_concurrent_runs: 1,
    max_queued_runs: 0,
    command_timeout_seconds: 120,
    observe_target_updates: 100,
    max_body_bytes: 8388608,
    max_dataset_bytes: 4294967296,
    problem_type_base: "urn:svc:problems",
    allowed_hosts: [],
    limits: { vram: "all", ram: "all" },
    log: { level: "info" },
    serving: { enabled: false, idle_seconds: 300, record: false },
    rewards: [],
    judges: [],
    mcp_servers: [],
    environments: [],
  });
});

Deno.test("paths resolve against the file's folder", () => {
  const config = load(`data_dir = "data"\npath_roots = ["models", "/srv/models"]`);
  assert.equal(config.data_dir, "/etc/svc/data");
  assert.deepEqual(config.path_roots, ["/etc/svc/models", "/srv/models"]);
  const rewards = load(
    ["", `cwd = "graders"`, `cwd = "/opt/graders"`].map((cwd, i) =>
      `[[rewards]]\nid = "r${i}"\ncommand = ["grade"]\n${cwd}\n`
    ).join(""),
  ).rewards;
  assert.deepEqual(rewards.map(({ cwd }) => cwd), ["/etc/svc", "/etc/svc/graders", "/opt/graders"]);
});

Deno.test("every problem is listed at once, with line and nearest key", () => {
  const text = [
    `bnd = "127.0.0.1:1"`,
    `max_queued_runs = -1`,
    `ui = "yes"`,
    `allowed_hosts = ["http://a"]`,
    `[limits]`,
    `vrm = 1`,
    `ram = "8GB"`,
    `[[rewards]]`,
    `description = "no id"`,
  ].join("\n");
  assert.deepEqual(problems(text), [
    "1 bnd unknown_field",
    "2 max_queued_runs out_of_range",
    "3 ui invalid_value",
    "4 allowed_hosts.0 invalid_value",
    "6 limits.vrm unknown_field",
    "7 limits.ram invalid_value",
    "8 rewards.0.command missing_field",
    "8 rewards.0.id missing_field",
  ]);
  assert.throws(() => load(text), /server\.toml:1: bnd: is no known key; did you mean "bind"\?/);
  assert.throws(() => load(text), /limits\.vrm: is no known key; did you mean "limits\.vram"\?/);
  assert.deepEqual(problems("bind = "), ["1  syntax"]);
});

Deno.test("only a loopback address may be used without a token", () => {
  assert.deepEqual(problems(`bind = "0.0.0.0:8471"`), ["1 bind invalid_value"]);
  assert.deepEqual(problems(`bind = "[::]:8471"`), ["1 bind invalid_value"]);
  assert.deepEqual(problems(`bind = "127.0.0.1.example.org:8471"`), ["1 bind invalid_value"]);
  assert.deepEqual(problems(`bind = "0.0.0.0:8471"\nauth_token = "t"`), []);
  assert.deepEqual(problems(`bind = "[::1]:0"`), []);
  assert.deepEqual(problems(`auth_token = "two words"`), ["1 auth_token invalid_value"]);
  assert.deepEqual(problems(`auth_token = ""`), ["1 auth_token invalid_value"]);
  for (const text of [`auth_token = "canary words"`, `auth_token = ["canary"]`, `auth_token = "canary`]) {
    assert.throws(() => load(text), (error: Error) => !error.message.includes("canary"), text);
  }
  assert.ok(isLoopback("127.1.2.3") && isLoopback("localhost") && !isLoopback("10.0.0.1"));
  assert.deepEqual(parseBind("[::1]:80"), { host: "::1", port: 80 });
  assert.equal(parseBind("127.0.0.1:65536"), null);
  assert.equal(parseBind("127.0.0.1"), null);
});

Deno.test("an entry of the catalogue has an id of its own and what it needs", () => {
  const text = [
    `[[environments]]`,
    `id = "a"`,
    `[[environments]]`,
    `id = "a"`,
    `type = "local"`,
    `[[environments]]`,
    `id = "b"`,
    `type = "http"`,
    `[[mcp_servers]]`,
    `id = "c"`,
  ].join("\n");
  assert.deepEqual(problems(text), [
    "1 environments.0.type missing_field",
    "4 environments.1.id invalid_value",
    "5 environments.1.type invalid_value",
    "6 environments.2.base_url missing_field",
    "9 mcp_servers.0 invalid_value",
  ]);
  assert.throws(
    () => load(`[[environments]]\nid = "a"\ntpe = "local"`),
    /did you mean "environments\.0\.type"\?/,
  );
});

Deno.test("budgets are everything, a share, bytes, or text with a unit", () => {
  assert.equal(parseBudget("all"), "all");
  assert.deepEqual(parseBudget(0.5), { share: 0.5 });
  assert.deepEqual(parseBudget(1), { share: 1 });
  assert.deepEqual(parseBudget(2), { bytes: 2 });
  assert.deepEqual(parseBudget("8GiB"), { bytes: 8589934592 });
  assert.deepEqual(parseBudget("1.5 MiB"), { bytes: 1572864 });
  for (const wrong of [0, -1, 1.5, "8GB", "0GiB", "half", null]) assert.equal(parseBudget(wrong), null);
});

Deno.test("numbers are accepted up to their bounds and refused beyond them", () => {
  for (const [key, { min, max }] of Object.entries(SERVER_LIMITS)) {
    const section = key === "idle_seconds" ? "[serving]\n" : "";
    const at = (value: number) => problems(`${section}${key} = ${value}`).length;
    assert.deepEqual([at(min - 1), at(min), at(max), at(max + 1)], [1, 0, 0, 1], key);
  }
});
