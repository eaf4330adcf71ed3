import { deepEqual, equal, rejects } from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import {
  callText,
  rolloutGroups,
  TEST_TOOLS,
  testEnvironments,
  testRollout,
  testScenarios,
  turnTokens,
} from "../rollout/rollout_fake.ts";
import { fakeTool, fakeToolHost, type FakeToolHostOptions } from "../tools/tool_host_fake.ts";
import { LIST_TIMEOUT_MS, withToolHosts } from "./with_tool_hosts.ts";

const never = new AbortController().signal;
const [scenario] = testScenarios("s");
const HANG = new Promise<never>(() => {});

/** One attempt that calls `time`, `say` and `end`, with a second host and the test environments. */
function attempt(options: FakeToolHostOptions, signal = never) {
  const own = testEnvironments(), host = fakeToolHost(options), other = fakeToolHost({ tools: [] });
  const environment = withToolHosts(own, [other, host], new ManualClock());
  const turns = [callText("time"), callText("say", { text: "hi" }), callText("end")];
  const engine = new ScriptedEngine({ script: ({ turn }) => turnTokens(turns[turn]!) });
  const groups = Array.fromAsync(rolloutGroups(testRollout(engine.client, { environment, signal })));
  return { own, host, other, environment, groups };
}

Deno.test("an attempt calls the tools of its environment and those of another host", async () => {
  const { own, host, other, groups } = attempt({});
  const [group] = await groups;
  const [member] = group!.members;
  deepEqual(group!.tools.map(({ name }) => name), [...TEST_TOOLS.map(({ name }) => name), "time"]);
  deepEqual(member!.turns.map(({ calls }) => calls[0]!.result), ["noon", "ok", null]);
  // The environment's own reward: the number of `say` calls.
  deepEqual([member!.stop_reason, member!.total_reward, own.live], ["completed", 1, 0]);
  deepEqual([host.count, other.count], Array(2).fill({ listed: 1, opened: 1, closed: 1, left: 0 }));
});

Deno.test("a host that opens late delays only its attempt's start", async () => {
  const opening = Promise.withResolvers<void>();
  const { own, host, groups } = attempt({ open: () => opening.promise });
  equal(own.live, 0, "the environment opens last");
  opening.resolve();
  const [group] = await groups;
  equal(group!.members[0]!.stop_reason, "completed");
  deepEqual([host.count.opened, host.count.closed, own.live], [1, 1, 0]);
});

Deno.test("a host that fails to open costs its attempt, and closes the hosts that are open", async () => {
  const open = () => {
    throw new Error("exit status 3");
  };
  const { own, host, other, groups } = attempt({ name: "the MCP server x", open });
  const [member] = (await groups)[0]!.members;
  equal(member!.stop_reason, "environment_failed");
  deepEqual(member!.failure, {
    boundary: "environment",
    message: "Cannot open the MCP server x: exit status 3",
  });
  deepEqual([other.count.opened, other.count.closed, host.count.opened, own.live], [1, 1, 0, 0]);
});

Deno.test("an environment that fails to open closes the hosts", async () => {
  const own = testEnvironments({ open: () => Promise.reject(new Error("no place")) }), host = fakeToolHost();
  const environments = withToolHosts(own, [host], new ManualClock());
  await rejects(environments.open(scenario!, { seed: 1, signal: never }), /no place/);
  deepEqual([host.count.opened, host.count.closed], [1, 1]);
});

Deno.test("an attempt that is cancelled closes each host once, also one that opens later", async () => {
  const stop = new AbortController(), started = Promise.withResolvers<void>();
  const opening = Promise.withResolvers<void>(), closed = Promise.withResolvers<void>();
  const { own, host, other, groups } = attempt({
    open: () => (started.resolve(), opening.promise),
    close: () => closed.resolve(),
  }, stop.signal);
  await started.promise;
  stop.abort();
  await rejects(groups, { code: "cancelled" });
  opening.resolve();
  await closed.promise;
  deepEqual([host.count.opened, host.count.closed, other.count.closed, own.live], [1, 1, 1, 0]);
});

Deno.test("an attempt that is cancelled in a call closes each host once", async () => {
  const stop = new AbortController();
  const call = () => (stop.abort(), { result: "", reward: null, done: false });
  const { own, host, other, groups } = attempt({ call }, stop.signal);
  await rejects(groups, { code: "cancelled" });
  deepEqual([host.count.closed, other.count.closed, own.live], [1, 1, 0]);
});

Deno.test("closing twice closes the parts once, all of them, also after one fails", async () => {
  const close = () => {
    throw new Error("it does not end");
  };
  const own = testEnvironments(), broken = fakeToolHost({ close }), host = fakeToolHost({ tools: [] });
  const environments = withToolHosts(own, [broken, host], new ManualClock());
  const environment = await environments.open(scenario!, { seed: 1, signal: never });
  await Promise.all([environment.close(), environment.close()]);
  await environments.close();
  await environments.close();
  const counts = [broken, host].map(({ count }) => [count.closed, count.left]);
  deepEqual([counts, own.live], [[[1, 1], [1, 1]], 0]);
});

Deno.test("two tools of one name are refused with the catalogue, before an attempt", async () => {
  const host = fakeToolHost({ tools: [fakeTool("say")] });
  const environments = withToolHosts(testEnvironments(), [host], new ManualClock());
  const refused = {
    code: "config_invalid",
    message: /"say" is not unique: the toolset "test" and the host clock/,
  };
  await rejects(environments.catalog(scenario!, never), refused);
  await rejects(environments.catalogs(never), refused);
  deepEqual([host.count.listed, host.count.opened], [1, 0], "no attempt has started");
});

Deno.test("hosts are listed once, and again after a failure", async () => {
  let failures = 1;
  const list = () => {
    if (failures-- > 0) throw new Error("no answer");
  };
  const host = fakeToolHost({ name: "the MCP server x", list });
  const environments = withToolHosts(testEnvironments(), [host], new ManualClock());
  await rejects(environments.catalog(scenario!, never), {
    code: "environment_failed",
    message: "Cannot list the tools of the MCP server x: no answer",
  });
  const [catalog] = await environments.catalogs(never);
  equal(catalog!.is_default, true);
  deepEqual(await environments.catalog(scenario!, never), {
    name: "test",
    version: "1",
    tools: catalog!.tools,
  });
  equal(host.count.listed, 2);
});

Deno.test("a signal ends the wait for a list that does not come, and no other wait", async () => {
  const listed = Promise.withResolvers<void>();
  const environments = withToolHosts(
    testEnvironments(),
    [fakeToolHost({ list: () => listed.promise })],
    new ManualClock(),
  );
  const stop = new AbortController();
  const abandoned = environments.catalog(scenario!, stop.signal);
  const waiting = environments.catalog(scenario!, never);
  stop.abort(new Error("enough"));
  await rejects(abandoned, /enough/);
  listed.resolve();
  equal((await waiting).tools.at(-1)!.name, "time");
  const hanging = withToolHosts(testEnvironments(), [fakeToolHost({ list: () => HANG })], new ManualClock());
  const cancelled = hanging.catalog(scenario!, AbortSignal.abort(new Error("too late")));
  await rejects(cancelled, /too late/);
});

Deno.test("a host that never lists its tools is named after the time limit, and is asked again", async () => {
  const started = Promise.withResolvers<void>();
  let lists = 0;
  const list = () => (started.resolve(), lists++ === 0 ? HANG : undefined);
  const clock = new ManualClock(), hanging = fakeToolHost({ name: "the MCP server x", list });
  const environments = withToolHosts(testEnvironments(), [fakeToolHost({ tools: [] }), hanging], clock);
  const refused = rejects(environments.catalogs(never), {
    code: "environment_failed",
    message: "Cannot list the tools of the MCP server x: it gave no answer within 30 s",
  });
  let ended = false;
  refused.then(() => ended = true);
  await started.promise;
  await clock.advance(LIST_TIMEOUT_MS - 1);
  equal(ended, false);
  await clock.advance(1);
  await refused;
  equal((await environments.catalog(scenario!, never)).tools.at(-1)!.name, "time");
  equal(clock.sleeping, 0);
});

Deno.test("closing ends the wait for a list that does not come", async () => {
  const clock = new ManualClock();
  const environments = withToolHosts(testEnvironments(), [fakeToolHost({ list: () => HANG })], clock);
  const refused = rejects(environments.catalogs(never), { code: "cancelled" });
  await environments.close();
  await refused;
  equal(clock.sleeping, 0);
});

Deno.test("environments without other hosts stay the same", async () => {
  const own = testEnvironments();
  equal(withToolHosts(own, [], new ManualClock()), own);
  deepEqual((await own.catalog(scenario!, never)).tools, TEST_TOOLS);
});
