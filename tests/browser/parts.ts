/** Parts of pages that several tests use, as a person finds them. */

import type { Locator, Page } from "playwright-core";

/** More values than a chart has in these tests. */
const MANY_VALUES = 1000;

/** Fills in the login form, which has to be shown. */
export async function logIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** Resolves when a run's page shows this state. */
export async function inState(page: Page, state: string): Promise<void> {
  await page.locator(".page-head").getByText(state).waitFor();
}

/** A chart with at least so many values, as it says to those who do not see it. */
export function chartWith(page: Page, metric: string, { values }: { values: number }): Locator {
  const counts = Array.from({ length: MANY_VALUES }, (_, i) => values + i).join("|");
  return page.getByRole("img", { name: new RegExp(`^${metric}\\. .*: (${counts}) values`) });
}

/** How many values a chart has, once it has so many at least. */
export async function valuesOf(page: Page, metric: string, { least = 0 } = {}): Promise<number> {
  const label = await chartWith(page, metric, { values: least }).getAttribute("aria-label");
  return Number(/: (\d+) values/.exec(label!)![1]);
}
