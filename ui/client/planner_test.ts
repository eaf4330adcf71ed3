import assert from "node:assert/strict";
import type { Plan } from "../../api/types.ts";
import { type AskPlan, Planner } from "./planner.ts";
import type { RunRequest } from "./run_request.ts";

const request = (toml: string): RunRequest => ({ toml });
const planNamed = (name: string) => ({ config: { name } }) as unknown as Plan;

/** A planner whose time and whose server wait for the test. */
function heldPlanner() {
  const asked: {
    toml: string;
    signal: AbortSignal;
    is_measured: boolean;
    answer: PromiseWithResolvers<Plan>;
  }[] = [];
  const waits: { work: () => void; is_cancelled: boolean }[] = [];
  const ask: AskPlan = (request, { signal, is_measured }) => {
    const answer = Promise.withResolvers<Plan>();
    asked.push({ toml: "toml" in request ? request.toml : "", signal, is_measured, answer });
    return answer.promise;
  };
  const planner = new Planner(ask, (work) => {
    const wait = { work, is_cancelled: false };
    waits.push(wait);
    return () => wait.is_cancelled = true;
  });
  const pass = () => waits.splice(0).forEach(({ work, is_cancelled }) => is_cancelled || work());
  return { planner, asked, pass };
}

Deno.test("the server is asked once for what changed several times in a row, and not for the same again", () => {
  const { planner, asked, pass } = heldPlanner();
  for (const toml of ["a", "ab", "abc"]) planner.want(request(toml));
  assert.equal(asked.length, 0);
  assert.equal(planner.state.value.awaited, "plan");
  pass();
  planner.want(request("abc"));
  pass();
  assert.deepEqual(asked.map(({ toml }) => toml), ["abc"]);
});

Deno.test("a question is aborted by a newer request, and its late answer is dropped", async () => {
  const { planner, asked, pass } = heldPlanner();
  planner.want(request("old"));
  pass();
  planner.want(request("new"));
  assert.ok(asked[0]!.signal.aborted);
  pass();
  asked[1]!.answer.resolve(planNamed("new"));
  await asked[1]!.answer.promise;
  asked[0]!.answer.resolve(planNamed("old"));
  await asked[0]!.answer.promise;
  const { plan, request: of, awaited } = planner.state.value;
  assert.deepEqual([plan, of, awaited], [planNamed("new"), request("new"), null]);
});

Deno.test("a refusal leaves the plan before it, and the next plan removes the refusal", async () => {
  const { planner, asked } = heldPlanner(), refusal = new Error("no");
  const answer = async (toml: string, settle: (of: PromiseWithResolvers<Plan>) => void) => {
    planner.planNow(request(toml));
    settle(asked.at(-1)!.answer);
    await asked.at(-1)!.answer.promise.catch(() => {});
    await Promise.resolve();
    return planner.state.value;
  };
  await answer("1", ({ resolve }) => resolve(planNamed("1")));
  const refused = await answer("2", ({ reject }) => reject(refusal));
  assert.deepEqual([refused.plan, refused.error, refused.request], [planNamed("1"), refusal, request("2")]);
  const planned = await answer("3", ({ resolve }) => resolve(planNamed("3")));
  assert.deepEqual([planned.plan, planned.error], [planNamed("3"), null]);
});

Deno.test("a measurement is asked for at once, and what is closed asks nothing", () => {
  const { planner, asked, pass } = heldPlanner();
  planner.planNow(request("a"), { is_measured: true });
  assert.deepEqual(asked.map(({ is_measured }) => is_measured), [true]);
  assert.equal(planner.state.value.awaited, "measurement");
  planner.want(request("b"));
  planner.close();
  pass();
  assert.deepEqual(asked.map(({ toml }) => toml), ["a"]);
});

Deno.test("the refusal of a start ends the question that was under way", async () => {
  const { planner, asked } = heldPlanner(), refusal = new Error("no slot");
  planner.planNow(request("a"));
  planner.refuse(request("a"), refusal);
  asked[0]!.answer.resolve(planNamed("a"));
  await asked[0]!.answer.promise;
  assert.deepEqual([planner.state.value.error, planner.state.value.awaited], [refusal, null]);
});
