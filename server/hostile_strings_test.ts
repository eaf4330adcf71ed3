/**
 * Strings that break programs (fixtures/strings: 461 of them, and names of Object.prototype) in every part of a path,
 * every query parameter and every header that a handler reads: the answer is declared, and never a failure of ours.
 */

import assert from "node:assert/strict";
import { TestFleet } from "../runs/fleet/fleet_testing.ts";
import { readFixtureJson } from "../tests/fixture.ts";
import { withFolder } from "../tests/folder.ts";
import type { App } from "./app.ts";
import { type Given, testApp, testRequest } from "./app_testing.ts";
import { ROUTES } from "./route_table.ts";
import { type Method, pathNames, type Route } from "./routing/route.ts";
import { metrics, runsOf, storedRun, writeEvents } from "./runs_testing.ts";

const NAUGHTY: string[] = await readFixtureJson("strings/naughty.json");
const PROTOTYPE_NAMES = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"];
const LONG = ["\0", "a\0b", "a/../b", "x".repeat(4097), "\u202e.gguf", "\ud83d\ude00".repeat(64)];
const STRINGS = [...NAUGHTY, ...PROTOTYPE_NAMES, ...LONG];

/** Values with which a path has its resource, so that the next part of the path is looked at too. */
const VALID: Record<string, string> = { id: "run_A", name: "events.jsonl", n: "0" };

/** An escaped string of any characters; a half of a surrogate pair, which no URL can hold, is replaced. */
const escaped = (text: string) => encodeURIComponent(text.toWellFormed());

/** What a request to the route needs so that its path and parameters are looked at. */
function givenFor({ method, body }: Route): Given {
  const content_type = Object.keys(body?.content ?? {})[0];
  return content_type === undefined
    ? { method: method as Method }
    : { method: method as Method, body: "{}", headers: { "content-type": content_type } };
}

/** The route's path with valid values, but for one name. */
function pathWith({ path }: Route, name?: string, value = ""): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, part) => part === name ? escaped(value) : VALID[part] ?? "0");
}

/** The status of an answer that does not end by itself. */
async function start(app: App, target: string, given: Given): Promise<{ status: number }> {
  const response = await app.handle(...testRequest(target, given));
  await response.body?.cancel();
  return response;
}

/** Sends each request to an app with one run. `send` fails when an answer is not declared. */
async function sendAll(requests: Iterable<[string, Given]>): Promise<number> {
  let sent = 0;
  await withFolder(async (root) => {
    const run = storedRun(root, "run_A"), fleet = await TestFleet.open({ folder: `${root}/fleet` });
    await writeEvents(run.directory!, [metrics(1, { "reward/mean": 0.5 })]);
    const { app, send, logged } = testApp({ runs: runsOf(run), fleet: fleet.fleet, changes: fleet.relayed });
    try {
      for (const [target, given] of requests) {
        const is_endless = /^\/v1\/events\b/.test(target);
        const { status } = is_endless ? await start(app, target, given) : await send(target, given);
        assert.ok(status < 500 || status === 501, `${given.method} ${target}: ${status}`);
        sent++;
      }
    } finally {
      await fleet.close();
    }
    assert.deepEqual(logged, []);
  });
  return sent;
}

Deno.test("any string as any part of any path is an answer that the route declares", async () => {
  const routes = ROUTES.filter(({ path }) => pathNames(path).length > 0);
  const sent = await sendAll(function* (): Generator<[string, Given]> {
    for (const route of routes) {
      for (const name of pathNames(route.path)) {
        for (const text of STRINGS) yield [pathWith(route, name, text), givenFor(route)];
      }
    }
  }());
  const names = routes.flatMap(({ path }) => pathNames(path));
  assert.equal(sent, names.length * STRINGS.length);
});

Deno.test("any string as any query parameter is an answer that the route declares", async () => {
  const sent = await sendAll(function* (): Generator<[string, Given]> {
    // An upload starts a process for each accepted name.
    for (const route of ROUTES.filter(({ operation }) => operation !== "create_dataset")) {
      for (const name of PROTOTYPE_NAMES) yield [`${pathWith(route)}?${name}=1`, givenFor(route)];
      for (const name of Object.keys(route.query?.shape ?? {})) {
        for (const text of STRINGS) yield [`${pathWith(route)}?${name}=${escaped(text)}`, givenFor(route)];
      }
    }
  }());
  assert.ok(sent > ROUTES.length * STRINGS.length);
});

Deno.test("any string in any header that a handler reads is an answer that the route declares", async () => {
  const headers = ["authorization", "idempotency-key", "if-none-match", "if-range", "last-event-id", "range"];
  // A header holds Latin-1 without line breaks; anything else never arrives.
  const strings = STRINGS.filter((text) => /^[\x20-\x7e\xa0-\xff]*$/.test(text));
  assert.ok(strings.length > 250);
  await sendAll(function* (): Generator<[string, Given]> {
    for (const route of ROUTES.filter(({ path }) => /runs$|events$|artifacts\/\{name\}$/.test(path))) {
      const given = givenFor(route);
      for (const name of headers) {
        for (const text of strings) {
          yield [pathWith(route), { ...given, headers: { ...given.headers, [name]: text } }];
        }
      }
    }
  }());
});

Deno.test("a run takes any string as its name or refuses it there, and shows exactly what it took", async () => {
  await withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    try {
      const run = await fleet.create({ updates: 1 });
      await fleet.until(run, "completed");
      const { send } = testApp({ fleet: fleet.fleet, changes: fleet.relayed });
      const taken: string[] = [], refused: string[] = [];
      for (const name of STRINGS.map((text) => text.toWellFormed())) {
        const headers = { "content-type": "application/json" };
        const answer = await send(`/v1/runs/${run.id}`, {
          ...{ method: "PATCH", headers },
          body: JSON.stringify({ name, notes: name, tags: [] }),
        });
        if (answer.status === 200) {
          const { json } = await send(`/v1/runs/${run.id}`);
          assert.deepEqual([json.name, json.notes], [name, name]);
          taken.push(name);
        } else {
          assert.equal(answer.status, 422, name);
          for (const { pointer } of answer.json.errors) assert.match(pointer, /^\/(name|notes)$/);
          refused.push(name);
        }
      }
      for (const text of ["a\nb", "a\tb", "\u0000", "\u007f", "\u0085", "a\u2028b"]) {
        const changed = await send(`/v1/runs/${run.id}`, {
          ...{ method: "PATCH", headers: { "content-type": "application/json" } },
          body: JSON.stringify({ name: text, notes: text, tags: ["ok", text] }),
        });
        const errors = changed.json.errors.map((
          { pointer, code, message }: Record<string, string>,
        ) => [pointer, code, message]);
        const message = "must be on one line, without control characters";
        assert.deepEqual(errors, [["/name", "invalid_value", message], [
          "/tags/1",
          "invalid_value",
          message,
        ]]);
        const noted = await send(`/v1/runs/${run.id}`, {
          ...{ method: "PATCH", headers: { "content-type": "application/json" } },
          body: JSON.stringify({ notes: text }),
        });
        assert.deepEqual([noted.status, noted.json.notes], [200, text]);
      }
      assert.ok(taken.includes("ÅÍÎÏ˝ÓÔ\uf8ffÒÚÆ☃") && taken.includes("__proto__"));
      assert.ok(refused.includes("x".repeat(4097)) && refused.includes(""));
    } finally {
      await fleet.close();
    }
  });
});
