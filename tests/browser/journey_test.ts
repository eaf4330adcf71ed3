/** What a person does with a run, from the login to its result, in one visit. */

import assert from "node:assert/strict";
import { join } from "node:path";
import type { Page } from "playwright-core";
import type { Checkpoint, Run } from "../../api/types.ts";
import { sha256OfFile } from "../../core/files.ts";
import { browserTest, closeBrowser } from "./browser.ts";
import { chartWith, inState, logIn, valuesOf } from "./parts.ts";
import { TOKEN, ViewServer, World } from "./world.ts";

Deno.test.afterAll(closeBrowser);

/** More updates than any visit takes: the run is at work until it is told otherwise. */
const MANY_UPDATES = 1000;

/** What the fork trains beyond its checkpoint. */
const FORKED_UPDATES = 2;

const RUN_NAME = "first steps", FORK_NAME = "another way";

/** A visit to a server, with what came of it up to now. */
interface Visit {
  page: Page;
  world: World;
  /** The run that the visit creates, once it is there. */
  run: Run;
  fork: Run;
}

const addressOf = ({ url }: World, { id }: Run) => `${url}/#/runs/${id}`;

/** The run whose page is shown. */
async function shownRun({ page, world }: Visit, name: string): Promise<Run> {
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  return await world.api<Run>("GET", `/v1/runs/${page.url().split("/").at(-1)}`);
}

async function openView(page: Page, name: string): Promise<void> {
  const views = page.getByRole("navigation", { name: "views of this run" });
  await views.getByRole("link", { name, exact: true }).click();
}

async function comesIn({ page, world }: Visit): Promise<void> {
  const address = `${world.url}/#/new`;
  await page.goto(address);
  await logIn(page, "not the token");
  await page.getByText("This is not the server's token.").waitFor();
  assert.equal(await page.getByLabel("Token").getAttribute("aria-invalid"), "true");
  await logIn(page, TOKEN);
  await page.getByRole("heading", { name: "New run", level: 1 }).waitFor();
  assert.equal(page.url(), address);
}

/** Settings that make an update take seconds. */
const SETTINGS: Readonly<Record<string, string>> = {
  "agent.scenarios_per_update": "2",
  "agent.group_size": "3",
  "agent.max_turns": "4",
  "agent.max_new_tokens_per_turn": "48",
  "training.lr": "3e-3",
  "training.ctx": "640",
};

async function creates(visit: Visit): Promise<void> {
  const { page, world } = visit;
  await page.getByRole("radio", { name: /^Rewards/ }).check();
  await page.getByLabel("Upload a file").setInputFiles(world.file("train.jsonl"));
  const uploaded = page.getByRole("group", { name: "Datasets of the server" });
  await uploaded.getByRole("radio", { name: /^train\.jsonl/, checked: true }).waitFor();
  // There is one model and one environment, so they are chosen already.
  await page.getByRole("radio", { name: /^tiny-agent\.gguf/, checked: true }).waitFor();
  await page.getByRole("radio", { name: /^workspace/, checked: true }).waitFor();
  await page.getByLabel("Held-out data").fill(world.file("heldout.jsonl"));
  await page.getByLabel("Updates", { exact: true }).fill(String(MANY_UPDATES));
  for (const [name, value] of Object.entries(SETTINGS)) {
    await page.getByLabel(name, { exact: true }).fill(value);
  }
  await page.getByLabel("Another setting").fill("agent.max_rollout_secs");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByLabel("agent.max_rollout_secs", { exact: true }).fill("0");
  await page.getByLabel("Name of the run").fill(RUN_NAME);
  await page.getByText("Ready to start", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  visit.run = await shownRun(visit, RUN_NAME);
  const { agent, training } = visit.run.config as { agent: { updates: number }; training: { ctx: number } };
  assert.deepEqual([agent.updates, training.ctx], [MANY_UPDATES, 640]);
}

async function followsLive({ page }: Visit): Promise<void> {
  await page.getByRole("status").getByText(/: \d of 6 attempts have ended\.$/).waitFor();
  const values = await valuesOf(page, "reward/mean");
  await chartWith(page, "reward/mean", { values: values + 1 }).waitFor();
}

async function pauses({ page, world, run }: Visit): Promise<void> {
  await page.getByRole("button", { name: "Pause" }).click();
  await inState(page, "paused");
  const { progress: { update } } = await world.api<Run>("GET", `/v1/runs/${run.id}`);
  assert.equal(await valuesOf(page, "reward/mean", { least: update }), update);
}

/** What the test reads of a line of the scenarios. */
interface Task {
  id: string;
  user: string;
  metadata: { env: { verify: { command: string[] } } };
}

async function readsAnAttempt({ page, world }: Visit): Promise<void> {
  await openView(page, "Trajectories");
  await page.getByRole("link", { name: "update 1", exact: true }).click();
  const groups = page.getByRole("table", { name: "scenarios of update 1", exact: true });
  const group = groups.getByRole("rowheader").getByRole("link").first();
  const scenario = await group.innerText();
  await group.click();
  await page.getByRole("heading", { name: "Attempt 0" }).waitFor();
  const lines = (await Deno.readTextFile(world.file("train.jsonl"))).trim().split("\n");
  const tasks: Task[] = lines.map((line) => JSON.parse(line));
  const { user, metadata } = tasks.find(({ id }) => id === scenario)!;
  await page.getByRole("heading", { name: "Turn 1" }).waitFor();
  assert.ok((await page.locator(".conversation").innerText()).includes(user), user);
  const checked = page.getByRole("article").filter({ hasText: "What was checked" });
  const test = metadata.env.verify.command.at(-1)!;
  assert.ok((await checked.innerText()).includes(`sh -c\n${test}`), test);
  await checked.getByText("The whole scenario").press("Enter");
  await checked.getByText(JSON.stringify(user)).waitFor();
}

async function resumesAndCancels({ page, world, run }: Visit): Promise<void> {
  await page.goto(addressOf(world, run));
  await page.getByRole("button", { name: "Resume" }).click();
  await inState(page, "running");
  await page.getByRole("button", { name: "Cancel …" }).click();
  await page.getByRole("button", { name: "Cancel for good" }).click();
  await inState(page, "cancelled");
}

async function forks(visit: Visit): Promise<void> {
  const { page, world, run } = visit, path = `/v1/runs/${run.id}/checkpoints`;
  const { checkpoints: [newest] } = await world.api<{ checkpoints: Checkpoint[] }>("GET", path);
  const { name, update } = newest!;
  await openView(page, "Checkpoints and files");
  await page.getByRole("button", { name: `Fork ${name}`, exact: true }).click();
  await page.getByLabel("Name").fill(FORK_NAME);
  // What is mistyped is refused at its field, which gets the focus.
  await page.getByLabel("Updates in all").fill("1o");
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await page.getByRole("alert").getByText("Updates in all: ").waitFor();
  await page.getByLabel("Updates in all").and(page.locator(":focus")).waitFor();
  await page.getByLabel("Updates in all").fill(String(update + FORKED_UPDATES));
  await page.getByRole("group", { name: "plan of the fork" })
    .getByText(`updates ${update + 1} to ${update + FORKED_UPDATES}`).waitFor();
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await shownRun(visit, FORK_NAME);
  await page.getByText(`It continues ${RUN_NAME} from ${name}.`).waitFor();
  await inState(page, "completed");
  visit.fork = await shownRun(visit, FORK_NAME);
  assert.deepEqual(visit.fork.parent, { run: run.id, checkpoint: name });
}

async function compares({ page, fork }: Visit): Promise<void> {
  await page.getByRole("link", { name: "Compare with its parent" }).click();
  await page.getByRole("heading", { name: "Compare", level: 1 }).waitFor();
  const compared = page.getByRole("list", { name: "compared runs" });
  await compared.getByRole("link", { name: RUN_NAME }).waitFor();
  const lines = new RegExp(`^reward/mean\\. A: \\d+ values, .*; B: ${FORKED_UPDATES} values`);
  await page.getByRole("img", { name: lines }).waitFor();
  await compared.getByRole("link", { name: FORK_NAME }).click();
  await page.getByRole("heading", { name: fork.name, level: 1 }).waitFor();
}

async function downloads({ page, world, fork }: Visit): Promise<void> {
  await openView(page, "Checkpoints and files");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: /adapter\.gguf$/ }).click(),
  ]);
  const path = join(world.folder, "downloaded");
  await download.saveAs(path);
  const written = join(world.folder, "data", "runs", fork.id, "adapter.gguf");
  assert.equal(await sha256OfFile(path), await sha256OfFile(written));
}

async function leaves({ page, world }: Visit): Promise<void> {
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.goto(`${world.url}/#/runs`);
  await page.reload();
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.getByText(RUN_NAME).count(), 0);
}

async function looksInViewMode({ page, world, fork }: Visit): Promise<void> {
  await using view = await ViewServer.start(join(world.folder, "data", "runs", fork.id, "trajectories"));
  await page.goto(view.url);
  await chartWith(page, "reward/mean", { values: FORKED_UPDATES }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Pause" }).count(), 0);
  await openView(page, "Trajectories");
  const { progress: { update } } = fork;
  await page.getByRole("link", { name: `update ${update}`, exact: true }).waitFor();
}

browserTest("from the login to the adapter of a run's fork, and back out", async (page, step) => {
  await using world = await World.start();
  const visit = { page, world } as Visit;
  await step("a wrong token is refused, the right one leads to where the visit began", () => comesIn(visit));
  await step(
    "a run is written, planned and started, with a file that is uploaded for it",
    () => creates(visit),
  );
  await step("the charts grow while it trains", () => followsLive(visit));
  await step("it pauses at the next update", () => pauses(visit));
  await step("an attempt shows what the model was asked and what it did", () => readsAnAttempt(visit));
  await step("it is resumed and cancelled", () => resumesAndCancels(visit));
  await step("a fork of its newest checkpoint trains to its end", () => forks(visit));
  await step("both are compared in one chart", () => compares(visit));
  await step("the fork's adapter is downloaded, byte by byte", () => downloads(visit));
  await step("after the logout nothing is shown without the token", () => leaves(visit));
  await step("view mode shows the same run without a token", () => looksInViewMode(visit));
});

/** What a new tab of the browser shows: the login, or the runs. */
async function newTab({ page, world }: Pick<Visit, "page" | "world">): Promise<"login" | "runs"> {
  const tab = await page.context().newPage();
  await tab.goto(world.url);
  const login = tab.getByLabel("Token"), runs = tab.getByRole("heading", { name: "Runs", level: 1 });
  await login.or(runs).waitFor();
  const shown = await login.isVisible() ? "login" : "runs";
  await tab.close();
  return shown;
}

browserTest("another tab has the token when it is remembered, and not otherwise", async (page) => {
  await using world = await World.start();
  const runs = page.getByRole("heading", { name: "Runs", level: 1 });
  await page.goto(world.url);
  await logIn(page, TOKEN);
  await runs.waitFor();
  await page.reload();
  await runs.waitFor();
  assert.equal(await newTab({ page, world }), "login");

  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Remember it in this browser").check();
  await logIn(page, TOKEN);
  await runs.waitFor();
  assert.equal(await newTab({ page, world }), "runs");

  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal(await newTab({ page, world }), "login");
});
