/** What all pages of the interface have to pass, with a real run of the tiny model. */

import assert from "node:assert/strict";
import { join } from "node:path";
import type { Page } from "playwright-core";
import type { Checkpoint, RunComparison, Sample, TrajectoryGroup } from "../../api/types.ts";
import { durationText, numberText } from "../../ui/parts/format.ts";
import { browserTest, closeBrowser } from "./browser.ts";
import { brokenRules, tabStops, tabTo } from "./checks.ts";
import { ATTEMPT, writeHostile } from "./hostile.ts";
import { chartWith, logIn as fillLogin } from "./parts.ts";
import { openPage, PAGES, wholePage } from "./pages.ts";
import { TOKEN, trainedWorld, ViewServer, type World } from "./world.ts";

/** Every name that a person or a file may have given tries to run a script. */
const made = trainedWorld({ name: `a run ${ATTEMPT}` }, async (world) => {
  await Deno.copyFile(world.file("tiny-agent.gguf"), world.file(`model ${ATTEMPT}.gguf`));
});
Deno.test.afterAll(async () => {
  await closeBrowser();
  await made.close();
});

async function logIn(page: Page, { url }: World): Promise<void> {
  await page.goto(url);
  await fillLogin(page, TOKEN);
  await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
}

for (const colorScheme of ["light", "dark"] as const) {
  browserTest(
    `no page breaks a rule of WCAG 2.2 AA that a program can check (${colorScheme})`,
    async (page) => {
      const { world, subjects } = await made.get();
      await page.goto(world.url);
      await page.getByLabel("Token").waitFor();
      const broken: Record<string, string[]> = { login: await brokenRules(page) };
      await logIn(page, world);
      for (const shown of PAGES) {
        await openPage(page, shown, { url: world.url, subjects });
        broken[shown.name] = await brokenRules(page);
      }
      assert.deepEqual(Object.entries(broken).filter(([, rules]) => rules.length > 0), []);
    },
    { colorScheme },
  );
}

browserTest("a dataset's page leads to a new run with it", async (page) => {
  const { world, subjects } = await made.get();
  await logIn(page, world);
  await page.goto(`${world.url}/#/datasets/${subjects.dataset}`);
  await page.getByRole("link", { name: "New run with this dataset" }).click();
  await page.getByRole("radio", { name: /^tasks of /, checked: true }).waitFor();
  assert.ok(await page.getByRole("radio", { name: /^Rewards/ }).isChecked());
  assert.equal(await page.getByLabel("Scenarios: a dataset").inputValue(), subjects.dataset);
});

browserTest("a completed run says what it came to, and its journal when, to the second", async (page) => {
  const { world, trained: { id, last_metrics } } = await made.get(), path = `/v1/runs/${id}/metrics`;
  const { samples: [first] } = await world.api<{ samples: { value: number }[] }>(
    "GET",
    `${path}?names=reward/mean&first_update=1&last_update=1`,
  );
  await logIn(page, world);
  await page.goto(`${world.url}/#/runs/${id}`);
  const [from, to] = [first!.value, last_metrics["reward/mean"]].map(numberText);
  const changed = from === to ? `stayed at ${to}` : `went from ${from} to ${to}`;
  await page.getByRole("status").getByText(`: reward/mean ${changed}`).waitFor();
  assert.match(await page.locator(".phase").innerText(), /^It trained 3 updates in .*the held-out pass rate/);
  await page.getByRole("link", { name: "Journal" }).click();
  const entries = page.getByRole("list", { name: /^journal/ });
  await entries.getByText("completed").first().waitFor();
  const time = entries.locator("time").first(), at = await time.getAttribute("datetime");
  const seconds = String(new Date(at!).getSeconds()).padStart(2, "0");
  for (const text of [await time.innerText(), await time.getAttribute("title")]) {
    assert.match(text!, new RegExp(`:\\d\\d:${seconds}`));
  }
});

browserTest("an attempt is copied as a text, and downloaded as the server's JSON", async (page) => {
  const { world, trained: { id } } = await made.get(), path = `/trajectories/1/0`;
  const answer = await world.api<TrajectoryGroup>(
    "GET",
    `/v1/runs/${id}/trajectories/updates/1/groups/0?member=1`,
  );
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await logIn(page, world);
  await page.goto(`${world.url}/#/runs/${id}${path}?member=1`);
  const copies = page.getByRole("group", { name: "copies of this attempt" });
  await copies.getByRole("button", { name: "Copy as text" }).press("Enter");
  await copies.getByText("Copied").waitFor();
  const [first] = answer.members[0]!.messages!;
  const copied = await page.evaluate<string>("navigator.clipboard.readText()");
  assert.ok(copied.startsWith(`## ${first!.role}\n${first!.content}\n\n## `), copied);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    copies.getByRole("button", { name: "Download JSON" }).press("Enter"),
  ]);
  const saved = join(world.folder, "attempt.json");
  await download.saveAs(saved);
  assert.equal(download.suggestedFilename(), `${id}_update_1_group_0_attempt_1.json`);
  assert.deepEqual(JSON.parse(await Deno.readTextFile(saved)), answer);
});

browserTest("a checkpoint is tried with the tools of its run, and its calls are shown", async (page) => {
  const { world, trained: { id } } = await made.get();
  const [line] = (await Deno.readTextFile(world.file("train.jsonl"))).split("\n");
  await logIn(page, world);
  await page.goto(`${world.url}/#/runs/${id}/files`);
  await page.getByRole("button", { name: /^Try / }).first().click();
  const form = page.getByRole("form", { name: /^try / });
  await form.getByRole("checkbox", { name: /^with the tools of the run, .*write_file/, checked: true })
    .waitFor();
  assert.notEqual(await form.getByLabel("System message").inputValue(), "");
  await form.getByLabel("Message", { exact: true }).fill(JSON.parse(line!).user);
  const request = page.waitForRequest("**/generate");
  await form.getByRole("button", { name: "Ask" }).press("Enter");
  const { tools } = (await request).postDataJSON() as { tools: { function: { name: string } }[] };
  assert.ok(tools.some((tool) => tool.function.name === "write_file"));
  const call = form.locator(".answer .call");
  await call.locator("summary").press("Enter");
  await call.locator("dt").first().waitFor();
});

browserTest("a chat offers each model the tools of its run, and shows their calls as text", async (page) => {
  const { world, subjects: { run, other } } = await made.get();
  const called = { name: `tool ${ATTEMPT}`, arguments: { [`key ${ATTEMPT}`]: `value ${ATTEMPT}` } };
  await logIn(page, world);
  // What this model never calls.
  await page.route("**/generate", (route) =>
    route.fulfill({
      json: {
        message: {
          ...{ role: "assistant", content: "" },
          tool_calls: [{ id: "1", type: "function", function: called }],
        },
        ...{ token_ids: [], logprobs: [], stop_reason: "stop" },
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      },
    }));
  await page.goto(`${world.url}/#/compare/chat?runs=${run},${other}`);
  await page.getByText("How they answer").press("Enter");
  await page.getByRole("checkbox", { name: /^with the tools of its run/, checked: true }).waitFor();
  await page.getByLabel(/^Message to all/).fill("hello");
  const request = page.waitForRequest("**/generate");
  await page.getByRole("button", { name: "Send" }).press("Enter");
  assert.ok(((await request).postDataJSON() as { tools: unknown[] }).tools.length > 0);
  // The base, and both runs.
  const calls = page.locator(".chat-column .call");
  await calls.nth(2).waitFor();
  await calls.first().locator("summary").press("Enter");
  const shown = await calls.first().innerText();
  for (const word of ["tool", "key", "value"]) assert.ok(shown.includes(`${word} ${ATTEMPT}`), word);
  assert.deepEqual(await page.evaluate(ATTACK), [null, 0]);
});

browserTest(
  "a chart has marks where something happened, told under the pointer and by the keyboard",
  async (page) => {
    const { world, trained: { id } } = await made.get();
    const { checkpoints: [newest] } = await world.api<{ checkpoints: Checkpoint[] }>(
      "GET",
      `/v1/runs/${id}/checkpoints`,
    );
    const happened = "checkpoint", figure = page.getByRole("figure").first();
    await logIn(page, world);
    await page.goto(`${world.url}/#/runs/${id}`);
    const chart = chartWith(page, "reward/mean", { values: 3 });
    // It has no marks before the events have come, and the sentence of the result comes with the last one.
    await page.getByText(/^It trained 3 updates/).waitFor();
    await chart.press("End");
    await figure.getByRole("status").getByText(new RegExp(`^update ${newest!.update}, .*, .*${happened}`))
      .waitFor();
    const caption = figure.locator("figcaption").getByText(happened);
    await caption.waitFor();
    await chart.press("Escape");
    await caption.waitFor({ state: "detached" });
    const { x, y, width, height } = (await chart.locator(".u-over").boundingBox())!;
    await page.mouse.move(x + width - 2, y + height / 2);
    await caption.waitFor();
  },
);

browserTest("a run's charts go across its time, by the keyboard and from the address", async (page) => {
  const { world, trained: { id, started_at } } = await made.get();
  const { samples } = await world.api<{ samples: Sample[] }>(
    "GET",
    `/v1/runs/${id}/metrics?names=reward/mean`,
  );
  const seconds = (Date.parse(samples.at(-1)!.time) - Date.parse(started_at!)) / 1000;
  await logIn(page, world);
  await page.goto(`${world.url}/#/runs/${id}`);
  await page.getByLabel("Across").selectOption("time since the start");
  await page.getByLabel("From second").waitFor();
  assert.match(page.url(), /[?&]x=time$/);
  await page.reload();
  await page.getByLabel("From second").waitFor();
  const chart = chartWith(page, "reward/mean", { values: 3 });
  await chart.locator(".u-legend").getByText("time").waitFor();
  await chart.press("End");
  const said = page.getByRole("figure").first().getByRole("status");
  await said.getByText(`time ${durationText(seconds)}, `).waitFor();
});

browserTest("a comparison says how it is computed, in the server's words", async (page) => {
  const { world, subjects: { run, other } } = await made.get();
  const { methods } = await world.api<RunComparison>("GET", `/v1/compare?runs=${run},${other}`);
  await logIn(page, world);
  await page.goto(`${world.url}/#/compare/evaluations?runs=${run},${other}`);
  await page.getByText("How this is computed").press("Enter");
  for (const text of Object.values(methods)) await page.getByText(text).waitFor();
});

browserTest("a copy of a run leaves the draft that was written as it was", async (page) => {
  const { world, trained: { id } } = await made.get(), name = page.getByLabel("Name of the run");
  await logIn(page, world);
  await page.goto(`${world.url}/#/new`);
  await name.fill("my own");
  await page.goto(`${world.url}/#/runs/${id}`);
  await page.getByRole("link", { name: "Start another like this" }).click();
  await page.getByRole("button", { name: "Back to your draft" }).waitFor();
  assert.match(page.url(), new RegExp(`#/new\\?from=${id}`));
  assert.notEqual(await name.inputValue(), "my own");
  await page.reload();
  await page.getByRole("button", { name: "Back to your draft" }).click();
  assert.equal(await name.inputValue(), "my own");
});

browserTest("a run that is not there leads back to those that are", async (page) => {
  const { world } = await made.get();
  await logIn(page, world);
  await page.goto(`${world.url}/#/runs/run_none`);
  const told = page.getByRole("alert");
  assert.doesNotMatch(await told.innerText(), /path|GET|Try again/);
  await told.getByRole("link", { name: "All runs" }).click();
  await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
});

const NARROW = { width: 390, height: 844 };

browserTest("a narrow window has every page and the progress of each run in sight", async (page) => {
  const { world } = await made.get();
  await logIn(page, world);
  const links = page.getByRole("navigation", { name: "pages" }).getByRole("link");
  const seen = [
    ...await links.all(),
    page.getByRole("button", { name: "Log out" }),
    page.getByRole("progressbar").first(),
    page.getByRole("img", { name: /^reward\/mean over the updates/ }).first(),
  ];
  assert.ok(await links.count() > 6);
  for (const each of seen) {
    const { x, width } = (await each.boundingBox())!;
    assert.ok(x >= 0 && x + width <= NARROW.width, await each.innerHTML());
  }
  assert.deepEqual(await brokenRules(page), []);
}, { viewport: NARROW });

for (const viewport of [NARROW, { width: 820, height: 1180 }]) {
  browserTest(`no page is wider than a window of ${viewport.width} pixels`, async (page) => {
    const { world, subjects } = await made.get(), wide: string[] = [];
    await logIn(page, world);
    for (const shown of PAGES) {
      await openPage(page, shown, { url: world.url, subjects });
      const width = await page.evaluate<number>("document.documentElement.scrollWidth");
      if (width > viewport.width) wide.push(`${shown.name}: ${width}`);
    }
    assert.deepEqual(wide, []);
  }, { viewport });
}

browserTest("a start that is refused leads to the first field that is wrong", async (page) => {
  const { world } = await made.get();
  await logIn(page, world);
  await page.goto(`${world.url}/#/new`);
  await page.getByText("Not complete yet", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Start", exact: true }).press("Enter");
  await page.locator('[id^="field"]:focus').waitFor();
});

browserTest("what belongs to another address is gone while the page's own is awaited", async (page) => {
  const { world, trained: { id } } = await made.get();
  await logIn(page, world);
  const { scenarios } = await world.api<{ scenarios: { scenario: string }[] }>(
    "GET",
    `/v1/runs/${id}/scenarios`,
  );
  const [one, other] = scenarios.map(({ scenario }) => scenario),
    address = `${world.url}/#/runs/${id}/scenarios`;
  const updates = page.getByRole("table", { name: "updates of this scenario" });
  await page.goto(`${address}/${one}`);
  await updates.waitFor();
  // It is never answered.
  await page.route(`**/scenarios/${other}*`, () => {});
  await page.goto(`${address}/${other}`);
  await page.getByText("Loading the scenario …").waitFor();
  assert.equal(await updates.count(), 0);
});

browserTest("the Tab key leads through every page, and what it leads to is seen", async (page) => {
  const { world, subjects } = await made.get();
  await logIn(page, world);
  for (const shown of PAGES) {
    await openPage(page, shown, { url: world.url, subjects });
    // A new document: the Tab key begins at its top.
    await page.reload();
    await wholePage(page, shown.complete);
    const stops = await tabStops(page);
    assert.match(stops[0]!.html, /Skip to the page/, shown.name);
    assert.deepEqual(stops.filter(({ has_ring, is_seen }) => !has_ring || !is_seen), [], shown.name);
  }
});

browserTest("a run is found, read and left by the keyboard alone", async (page) => {
  const { world, trained: run } = await made.get();
  await page.goto(world.url);
  await page.getByLabel("Token").waitFor();
  // The field has the focus.
  await page.keyboard.type(TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: run.name }).waitFor();
  await tabTo(page, "Skip to the page");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate("document.activeElement.id"), "main");
  await tabTo(page, run.name);
  await page.keyboard.press("Enter");
  await page.locator("h1:focus").getByText(run.name, { exact: true }).waitFor();
  assert.equal(await page.title(), `${run.name} · completed · svc`);
  await tabTo(page, "Journal");
  await page.keyboard.press("Enter");
  await page.getByRole("list", { name: /^journal/ }).waitFor();
  await tabTo(page, "Log out");
  await page.keyboard.press("Space");
  await page.getByLabel("Token").waitFor();
});

/** What became of attempts to run a script: whether one ran, and elements that only they could have made. */
const ATTACK = `[globalThis.attacked ?? null, document.querySelectorAll("img, [onerror], [onload]").length]`;

/** Texts of an attempt: of its scenario, its run, its messages, its calls' results, a failure, its checks and grading. */
const SHOWN_KEYS = [
  ...["scenario", "run_name", "content", "text", "result", "message"],
  ...["judge_explanation", "verification_output", "command"],
];

browserTest("no text that reaches a page is taken for HTML", async (page) => {
  const { world, trained: run, subjects } = await made.get();
  assert.ok(run.name.includes(ATTEMPT));
  await logIn(page, world);
  for (const shown of PAGES) {
    await openPage(page, shown, { url: world.url, subjects });
    assert.deepEqual(await page.evaluate(ATTACK), [null, 0], shown.name);
    if (shown.address({ ...subjects, run: "R" }).startsWith("#/runs/R")) {
      assert.equal(await page.getByRole("heading", { level: 1 }).innerText(), run.name);
    }
  }

  const directory = join(world.folder, "hostile");
  await writeHostile(join(world.folder, "data", "runs", run.id, "trajectories"), directory);
  await using view = await ViewServer.start(directory);
  for (const shown of PAGES.filter(({ in_view_mode }) => in_view_mode)) {
    await openPage(page, shown, { url: view.url, subjects: { ...subjects, run: "run_view" } });
    assert.deepEqual(await page.evaluate(ATTACK), [null, 0], shown.name);
  }
  const attempts = PAGES.find(({ name }) => name === "attempts")!;
  await openPage(page, attempts, { url: view.url, subjects: { ...subjects, run: "run_view" } });
  await page.getByRole("button", { name: "Open all calls" }).click();
  assert.deepEqual(await page.evaluate(ATTACK), [null, 0]);
  const text = (await page.locator("main").textContent())!;
  for (const key of SHOWN_KEYS) assert.ok(text.includes(key + ATTEMPT), `${key} is shown as it is`);
});

browserTest("a problem's words are shown as they are, with its hints and its trace", async (page) => {
  const { world, trained: run } = await made.get();
  await logIn(page, world);
  // Words that the server quotes from requests, all of them at once.
  const problem = {
    type: "urn:svc:problems/conflict",
    title: `title ${ATTEMPT}`,
    status: 409,
    detail: `detail ${ATTEMPT}`,
    trace_id: `trace ${ATTEMPT}`,
    errors: [{ pointer: `/p${ATTEMPT}`, message: `message ${ATTEMPT}`, hint: `hint ${ATTEMPT}` }],
    meta: {},
  };
  await page.route("**/v1/runs/*/checkpoints*", (route) => {
    const headers = { "content-type": "application/problem+json" };
    return route.fulfill({ status: 409, headers, body: JSON.stringify(problem) });
  });
  await page.goto(`${world.url}/#/runs/${run.id}/files`);
  const shown = await page.getByRole("alert").innerText();
  for (const word of ["title", "detail", "trace", "message", "hint"]) {
    assert.ok(shown.includes(`${word} ${ATTEMPT}`), word);
  }
  assert.deepEqual(await page.evaluate(ATTACK), [null, 0]);
});
