/** Every page of the interface, for the checks that all of them have to pass, and for screenshots. */

import type { Locator, Page } from "playwright-core";

/** What the addresses name. */
export interface Subjects {
  /** A completed run with trajectories and evaluations. */
  run: string;
  /** Another one of the same recipe. */
  other: string;
  /** A dataset of scenarios. */
  dataset: string;
  /** The path of the model. */
  model: string;
}

/** A page with its address and what is there when it is complete. */
export interface ShownPage {
  /** The name of its screenshots. */
  name: string;
  address: (subjects: Subjects) => string;
  /** What no other page has: the one before is shown until this one comes. */
  complete: (page: Page) => Locator;
  /** Whether view mode has it too. */
  in_view_mode?: true;
}

const compared = ({ run, other }: Subjects, view = "") => `#/compare${view}?runs=${run},${other}`;
const inModel = (model: string) => new URLSearchParams({ model });

const heading = (name: string) => (page: Page) => page.getByRole("heading", { name, level: 1 });

/** The first row of a table or of another part with a name. */
const firstRow = (role: "table" | "region", name: string) => (page: Page) =>
  page.getByRole(role, { name, exact: true }).getByRole("rowheader").first();

/** All pages behind the login. */
export const PAGES: readonly ShownPage[] = [
  {
    name: "runs",
    address: () => "#/runs",
    complete: (page) => page.getByRole("row", { name: /agent_grpo/ }).first(),
  },
  {
    name: "run",
    address: ({ run }) => `#/runs/${run}`,
    complete: (page) => page.getByRole("img", { name: /^reward\/mean\. reward/ }),
    in_view_mode: true,
  },
  {
    name: "trajectories",
    address: ({ run }) => `#/runs/${run}/trajectories`,
    complete: (page) => page.getByRole("link", { name: "update 1", exact: true }),
    in_view_mode: true,
  },
  {
    name: "groups",
    address: ({ run }) => `#/runs/${run}/trajectories/1`,
    complete: firstRow("table", "scenarios of update 1"),
    in_view_mode: true,
  },
  {
    name: "attempts",
    address: ({ run }) => `#/runs/${run}/trajectories/1/0?member=0&beside=1`,
    complete: (page) => page.getByText(/^(They part|Both attempts have the same tokens)/),
    in_view_mode: true,
  },
  {
    name: "tokens",
    address: ({ run }) => `#/runs/${run}/trajectories/1/0?member=0&view=tokens`,
    complete: (page) => page.getByRole("listbox", { name: "tokens" }).getByRole("option").first(),
    in_view_mode: true,
  },
  {
    name: "scenarios",
    address: ({ run }) => `#/runs/${run}/scenarios`,
    complete: firstRow("table", "scenarios"),
    in_view_mode: true,
  },
  {
    name: "search",
    address: ({ run }) => `#/runs/${run}/trajectories/search`,
    complete: firstRow("table", "attempts"),
    in_view_mode: true,
  },
  {
    name: "journal",
    address: ({ run }) => `#/runs/${run}/journal`,
    complete: (page) => page.getByRole("list", { name: /^journal/ }).getByText("state").first(),
  },
  {
    name: "files",
    address: ({ run }) => `#/runs/${run}/files`,
    complete: (page) => page.getByRole("button", { name: /adapter\.gguf$/ }),
  },
  {
    name: "configuration",
    address: ({ run }) => `#/runs/${run}/config`,
    complete: (page) => page.getByRole("rowheader", { name: "training.lr", exact: true }),
  },
  {
    name: "compare",
    address: (subjects) => compared(subjects),
    complete: (page) => page.getByRole("img", { name: /^reward\/mean\. A: / }),
  },
  {
    name: "compare_evaluations",
    address: (subjects) => compared(subjects, "/evaluations"),
    complete: (page) => page.getByRole("heading", { name: "Each example" }),
  },
  {
    name: "compare_scenarios",
    address: (subjects) => compared(subjects, "/scenarios"),
    complete: (page) => page.getByText(/^train-/).first(),
  },
  {
    name: "compare_configuration",
    address: (subjects) => compared(subjects, "/configuration"),
    complete: firstRow("region", "configuration"),
  },
  {
    name: "compare_chat",
    address: (subjects) => compared(subjects, "/chat"),
    complete: (page) => page.getByRole("region", { name: "chat", exact: true }),
  },
  {
    name: "datasets",
    address: () => "#/datasets",
    complete: (page) => page.getByRole("rowheader", { name: /^tasks of / }).first(),
  },
  {
    name: "dataset",
    address: ({ dataset }) => `#/datasets/${dataset}`,
    complete: (page) => page.getByRole("heading", { name: "Row 1", exact: true }),
  },
  {
    name: "dataset_tokens",
    address: ({ dataset, model }) => `#/datasets/${dataset}/rows/1?${inModel(model)}`,
    complete: (page) => page.getByRole("button", { name: "Next trained part" }),
  },
  {
    name: "dataset_lengths",
    address: ({ dataset, model }) => `#/datasets/${dataset}/lengths?${inModel(model)}`,
    complete: (page) => page.getByRole("heading", { name: "Rows by length" }),
  },
  {
    name: "new_run",
    address: ({ dataset }) => `#/new?data=${dataset}`,
    complete: (page) => page.getByText(/^(Ready to start|Not complete yet)$/),
  },
  {
    name: "catalogue",
    address: () => "#/catalogue",
    complete: (page) => page.getByText("workspace").first(),
  },
  {
    name: "device",
    address: () => "#/device",
    complete: (page) => page.getByRole("heading", { name: "In use" }),
  },
  { name: "no_page", address: () => "#/nothing", complete: heading("There is no such page") },
];

/** Opens a page, and resolves when all of it is there. */
export async function openPage(
  page: Page,
  { address, complete }: ShownPage,
  { url, subjects }: { url: string; subjects: Subjects },
): Promise<void> {
  await page.goto(`${url}/${address(subjects)}`);
  await wholePage(page, complete);
}

/** Resolves when all of the page is there. */
export async function wholePage(page: Page, complete: ShownPage["complete"]): Promise<void> {
  await complete(page).waitFor();
  await page.locator(".loading").first().waitFor({ state: "detached" });
  // A chart is drawn when it comes into view.
  await page.evaluate(`new Promise((drawn) => {
    const look = () => {
      const is_drawn = [...document.querySelectorAll(".plot")].every((plot) => {
        const { top, bottom, width } = plot.getBoundingClientRect();
        return width === 0 || top > innerHeight || bottom < 0 || plot.querySelector("canvas") !== null;
      });
      if (is_drawn) drawn();
      else requestAnimationFrame(look);
    };
    look();
  })`);
}
