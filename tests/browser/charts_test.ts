/** The charts of a run that is too long for all of its updates to be drawn. */

import assert from "node:assert/strict";
import { writeLargeRun } from "../../scripts/bench_interface/large_run.ts";
import { withFolder } from "../folder.ts";
import { browserTest, closeBrowser } from "./browser.ts";
import { chartWith, valuesOf } from "./parts.ts";
import { ViewServer } from "./world.ts";

Deno.test.afterAll(closeBrowser);

/** The server divides 1,000 updates into 400 buckets of two or three. */
const UPDATES = 1000, BUCKETS = 400;

/** Bucket b ends with update ⌈2.5 b⌉: 39 end before update 100, and 321 after update 199. */
const ZOOMED_VALUES = 39 + 100 + 321;

browserTest(
  "a part of the charts is chosen by hand or by numbers, and has every value then",
  async (page) => {
    await withFolder(async (folder) => {
      await writeLargeRun(folder, { updates: UPDATES, metrics: 2, groups: 1, attempts_per_group: 2 });
      await using view = await ViewServer.start(folder);
      const chart = chartWith(page, "reward/mean", { values: 0 }), places = () => new URL(page.url()).hash;
      await page.goto(`${view.url}/#/runs/run_view`);
      assert.equal(await valuesOf(page, "reward/mean"), BUCKETS);

      await page.getByLabel("From update").fill("100");
      await page.getByLabel("To update").fill("199");
      await page.getByRole("img", { name: /^reward\/mean\..* 460 values, .*; shown from 100 to 199$/ })
        .waitFor();
      assert.equal(await valuesOf(page, "reward/mean"), ZOOMED_VALUES);
      assert.match(places(), /[?&]from=100&to=199$/);

      // By the keyboard alone, within the part that is shown.
      await chart.press("Home");
      await page.getByRole("status").getByText(/^update 100, .*value /).waitFor();
      await chart.press("End");
      await chart.press("ArrowLeft");
      await page.getByRole("status").getByText(/^update 198, .*value /).waitFor();

      const plot = chart.locator(".u-over");
      await plot.dblclick();
      await page.getByRole("img", { name: /^reward\/mean\..* 400 values, [^;]*$/ }).waitFor();
      assert.doesNotMatch(places(), /from|to=/);

      const { x, y, width, height } = (await plot.boundingBox())!, middle = y + height / 2;
      await page.mouse.move(x + width / 4, middle);
      await page.mouse.down();
      await page.mouse.move(x + width / 2, middle, { steps: 3 });
      await page.mouse.up();
      await page.getByRole("img", { name: /^reward\/mean\..*; shown from / }).waitFor();
      const [, from, to] = /from=(\d+)&to=(\d+)/.exec(places())!.map(Number);
      // A pixel is a few updates.
      assert.ok(Math.abs(from! - 250) < 10 && Math.abs(to! - 501) < 10, places());
      assert.equal(await page.getByLabel("From update").inputValue(), String(from));
      // A chart that is opened later shows the same part.
      await page.locator("summary").getByText("section0").click();
      const other = new RegExp(`^section0/metric1\\..*; shown from ${from} to ${to}$`);
      await page.getByRole("img", { name: other }).waitFor();
    });
  },
);
