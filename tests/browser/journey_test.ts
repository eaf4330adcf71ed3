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

/** Enough that the run is still at work when it is told to pause. */
const UPDATES = 6;

/** A visit to the page of a run that was just started. */
interface Visit {
  page: Page;
  world: World;
  run: Run;
  address: string;
}

async function comesIn({ page, address, run }: Visit): Promise<void> {
  await page.goto(address);
  await logIn(page, "not the token");
  await page.getByText("This is not the server's token.").waitFor();
  assert.equal(await page.getByLabel("Token").getAttribute("aria-invalid"), "true");
  await logIn(page, TOKEN);
  await page.getByRole("heading", { name: run.name, level: 1 }).waitFor();
  assert.equal(page.url(), address);
}

async function followsLive({ page }: Visit): Promise<void> {
  const values = await valuesOf(page, "reward/mean");
  await chartWith(page, "reward/mean", { values: values + 1 }).waitFor();
}

async function pauses({ page, world, run }: Visit): Promise<void> {
  await page.getByRole("button", { name: "Pause" }).click();
  await inState(page, "paused");
  const { progress } = await world.api<Run>("GET", `/v1/runs/${run.id}`);
  assert.equal(await valuesOf(page, "reward/mean"), progress.update);
}

async function readsAnAttempt({ page, world }: Visit): Promise<void> {
  const views = page.getByRole("navigation", { name: "views of this run" });
  await views.getByRole("link", { name: "Trajectories" }).click();
  await page.getByRole("link", { name: "update 1", exact: true }).click();
  const groups = page.getByRole("table", { name: "scenarios of update 1", exact: true });
  const group = groups.getByRole("rowheader").getByRole("link").first();
  const scenario = await group.innerText();
  await group.click();
  await page.getByRole("heading", { name: "Attempt 0" }).waitFor();
  const lines = (await Deno.readTextFile(world.file("train.jsonl"))).trim().split("\n");
  const tasks: { id: string; user: string }[] = lines.map((line) => JSON.parse(line));
  const { user } = tasks.find(({ id }) => id === scenario)!;
  await page.getByRole("heading", { name: "Turn 1" }).waitFor();
  assert.ok((await page.locator(".conversation").innerText()).includes(user), user);
}

async function resumes({ page, address }: Visit): Promise<void> {
  await page.goto(address);
  await page.getByRole("button", { name: "Resume" }).click();
  await inState(page, "completed");
  assert.equal(await valuesOf(page, "reward/mean"), UPDATES);
}

async function downloads({ page, world, run }: Visit): Promise<void> {
  await page.getByRole("link", { name: "Checkpoints and files" }).click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: /adapter\.gguf$/ }).click(),
  ]);
  const path = join(world.folder, "downloaded");
  await download.saveAs(path);
  const written = join(world.folder, "data", "runs", run.id, "adapter.gguf");
  assert.equal(await sha256OfFile(path), await sha256OfFile(written));
}

async function forksAndCancels({ page, world, run }: Visit): Promise<void> {
  const path = `/v1/runs/${run.id}/checkpoints`;
  const { checkpoints } = await world.api<{ checkpoints: Checkpoint[] }>("GET", path);
  const checkpoint = checkpoints.find(({ update }) => update < UPDATES)!.name;
  await page.getByRole("button", { name: `Fork ${checkpoint}` }).click();
  await page.getByLabel("Name").fill("another way");
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await page.getByRole("heading", { name: "another way", level: 1 }).waitFor();
  await inState(page, "running");
  await page.getByRole("button", { name: "Cancel" }).click();
  await inState(page, "cancelled");
  const id = page.url().split("/").at(-1)!;
  const { state, parent } = await world.api<Run>("GET", `/v1/runs/${id}`);
  assert.deepEqual([state, parent?.run], ["cancelled", run.id]);
}

async function compares({ page, run }: Visit): Promise<void> {
  await page.getByRole("link", { name: "Compare with its parent" }).click();
  await page.getByRole("heading", { name: "Compare", level: 1 }).waitFor();
  const compared = page.locator("main");
  await compared.getByRole("link", { name: "another way" }).waitFor();
  await compared.getByRole("link", { name: run.name }).waitFor();
  await chartWith(page, "reward/mean", { values: UPDATES }).waitFor();
}

async function leaves({ page, world, run }: Visit): Promise<void> {
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.goto(`${world.url}/#/runs`);
  await page.reload();
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.getByText(run.name).count(), 0);
}

async function looksInViewMode({ page, world, run }: Visit): Promise<void> {
  await using view = await ViewServer.start(join(world.folder, "data", "runs", run.id, "trajectories"));
  await page.goto(view.url);
  await page.getByRole("rowheader").getByRole("link").click();
  await chartWith(page, "reward/mean", { values: UPDATES }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Pause" }).count(), 0);
  await page.getByRole("link", { name: "Trajectories" }).click();
  await page.getByRole("link", { name: `update ${UPDATES}`, exact: true }).waitFor();
}

browserTest("from the login to the adapter of a run and of its fork, and back out", async (page, step) => {
  await using world = await World.start();
  const run = await world.startRun({ name: "first steps", budget: { updates: UPDATES } });
  const visit: Visit = { page, world, run, address: `${world.url}/#/runs/${run.id}` };
  await step("a wrong token is refused, the right one leads to where the visit began", () => comesIn(visit));
  await step("the charts grow while the run trains", () => followsLive(visit));
  await step("it pauses at the next update", () => pauses(visit));
  await step("an attempt shows what the model was asked and what it did", () => readsAnAttempt(visit));
  await step("it is resumed and completes", () => resumes(visit));
  await step("its adapter is downloaded, byte by byte", () => downloads(visit));
  await step("a fork of its checkpoint trains and is cancelled", () => forksAndCancels(visit));
  await step("both are compared in one chart", () => compares(visit));
  await step("after the logout nothing is shown without the token", () => leaves(visit));
  await step("view mode shows the same run without a token", () => looksInViewMode(visit));
});
