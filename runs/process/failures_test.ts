import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { startTestRun as start } from "../../tests/test_run.ts";
import { eventsOf, MORE, ofKind } from "../run_fake.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const broken = (): never => {
  throw new ServiceError("environment_failed", "Cannot verify: no interpreter");
};

Deno.test(
  "an update reports its lost attempts with reasons, and the first failure once",
  strict,
  async () => {
    await withFolder(async (root) => {
      // The number of attempts in each update that said nothing, which cannot be graded.
      const ungraded = [0];
      const verify = (_: string, said: string[]) => {
        const text = said.join("");
        if (text !== "") return text.length;
        ungraded[ungraded.length - 1]!++;
        return broken();
      };
      const refuse = (method: string) => void (method === "train_step" && ungraded.push(0));
      const events = await eventsOf(await start({ root, more: "", verify, refuse }));
      const updates = ofKind(events, "update");
      assert.equal(updates.length, 3);
      for (const [i, { attempts, lost, failure, groups, optimizer_steps }] of updates.entries()) {
        assert.ok(ungraded[i]! > 0, String(i));
        assert.deepEqual([attempts, lost, optimizer_steps], [8, { verify_failed: ungraded[i] }, 1]);
        assert.deepEqual(failure, {
          scenario: groups.find(({ rewards }) => rewards.includes(null))!.scenario,
          boundary: "environment",
          message: "Cannot verify: no interpreter",
        });
      }
      const told = ofKind(events, "log").map(({ level, message }) => [level, message]);
      assert.deepEqual(told.length, 1);
      assert.deepEqual(told[0]![0], "warning");
      assert.match(
        told[0]![1]!,
        /^attempts of update 1 failed \(verify_failed\), first at scenario ".*", of the environment: Cannot/,
      );
      const [first] = ofKind(events, "metrics");
      assert.equal(first!.values["env/verify_failed_fraction"], ungraded[0]! / 8);
    });
  },
);

Deno.test("an update whose groups are all degenerate says that nothing was trained", strict, async () => {
  await withFolder(async (root) => {
    const events = await eventsOf(await start({ root, more: "", verify: () => 1 }));
    for (const { degenerate_groups, groups, optimizer_steps, lost } of ofKind(events, "update")) {
      assert.deepEqual([degenerate_groups, groups.length, optimizer_steps, lost], [2, 2, 0, {}]);
    }
  });
});

Deno.test("failed held-out attempts are counted in the event and as a metric", strict, async () => {
  await withFolder(async (root) => {
    const verify = (scenario: string) => scenario === "kl" ? broken() : 1;
    const events = await eventsOf(await start({ root, verify }));
    for (const { failed, failure, pass_rate } of ofKind(events, "evaluation")) {
      assert.deepEqual(failed, { verify_failed: 2 });
      assert.deepEqual(failure?.scenario, "kl");
      assert.deepEqual([pass_rate!.rate, pass_rate!.n, pass_rate!.attempts], [2 / 3, 3, 6]);
    }
    const shares = ofKind(events, "metrics").flatMap(({ values }) => values["eval/failed_fraction"] ?? []);
    assert.deepEqual(shares, [1 / 3, 1 / 3, 1 / 3]);
    const told = ofKind(events, "log").map(({ message }) => message);
    assert.match(told[0]!, /^held-out attempts failed \(verify_failed\), first at scenario "kl"/);
    assert.equal(told.length, 1, "not again");
  });
});

Deno.test(
  "a run whose evaluation can attempt nothing fails, and keeps its training",
  strict,
  async () => {
    await withFolder(async (root) => {
      let is_broken = false;
      const options = {
        root,
        more: MORE.replace("every_updates = 1", "every_updates = 50"),
        verify: (scenario: string, said: string[]) =>
          is_broken && ["kl", "mn", "op"].includes(scenario) ? broken() : said.join("").length,
        refuse: (method: string) => {
          if (method === "train_step") is_broken = true;
        },
      };
      const run = await start(options);
      const end = (await eventsOf(run)).at(-1)!;
      assert.ok(end.kind === "end" && end.state === "failed");
      assert.equal(end.reason, "environment_failed");
      assert.match(
        end.detail!,
        /^Cannot evaluate: all 6 attempts failed \(6 verify_failed\)\. First failure, at/,
      );
      const resumed = await start({
        ...options,
        refuse: () => void (is_broken = false),
        start: { mode: "resume" },
      });
      const events = await eventsOf(resumed);
      assert.equal(await resumed.ended, "completed");
      assert.equal(ofKind(events, "state")[0]!.checkpoint, "update_000002");
      assert.deepEqual(ofKind(events, "evaluation").map(({ update }) => update), [2, 3]);
    });
  },
);

Deno.test("a best adapter that is not what was written fails the run before it is used", strict, async () => {
  await withFolder(async (root) => {
    const best = `${root}/runs/test/adapter_best.gguf`;
    let is_damaged = false;
    const refuse = async (method: string) => {
      if (method !== "train_step" || is_damaged) return;
      is_damaged = true;
      const bytes = await Deno.readFile(best);
      await Deno.writeFile(best, bytes.with(9, bytes[9]! ^ 1));
    };
    const run = await start({ root, refuse });
    const { state, reason, detail } = ofKind(await eventsOf(run), "end")[0]!;
    assert.deepEqual([state, reason], ["failed", "data_invalid"]);
    assert.match(detail!, /Cannot use .*adapter_best\.gguf: it is damaged: its SHA-256 differs/);
  });
});
