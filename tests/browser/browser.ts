/**
 * Tests in a real Chromium. Without one they are skipped; with `REQUIRE_BROWSER=1` they fail. Two variables look for
 * tests and pages that rely on speed: `BROWSER_DELAY_MS` is the longest delay of a request to the API, each by another
 * part of it, and `BROWSER_CPU_FACTOR` how many times slower the page computes.
 */

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** The path of a Chromium: `CHROMIUM` or the first one on the search path; null when there is none. */
export function findChromium(): string | null {
  const given = Deno.env.get("CHROMIUM");
  if (given) return given;
  const folders = (Deno.env.get("PATH") ?? "").split(":").filter((folder) => folder !== "");
  const paths = NAMES.flatMap((name) => folders.map((folder) => `${folder}/${name}`));
  return paths.find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  }) ?? null;
}

/** @throws {Error} When there is no Chromium. */
export async function launchChromium(): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === null) throw new Error("There is no Chromium (Debian's package is chromium)");
  // Chromium's sandbox does not work for root; the pages are this program's own.
  return await chromium.launch({ executablePath, args: Deno.uid() === 0 ? ["--no-sandbox"] : [] });
}

/** How long anything may take that a test waits for: a run's first update on a busy machine of two cores is slow. */
const PATIENCE_MS = 180_000;

const DELAY_MS = Number(Deno.env.get("BROWSER_DELAY_MS") ?? 0);
const CPU_FACTOR = Number(Deno.env.get("BROWSER_CPU_FACTOR") ?? 1);

/** Makes the pages of a context slow, as the variables say. */
async function slowDown(context: BrowserContext): Promise<void> {
  if (DELAY_MS > 0) {
    await context.route("**/v1/**", async (route) => {
      await setTimeout(Math.random() * DELAY_MS);
      // The page may have given the request up.
      await route.continue().catch(() => {});
    });
  }
  if (CPU_FACTOR > 1) {
    context.on("page", async (page) => {
      const session = await context.newCDPSession(page);
      await session.send("Emulation.setCPUThrottlingRate", { rate: CPU_FACTOR });
    });
  }
}

let launched: Promise<Browser> | null = null;

/** Closes the browser that {@link browserTest} shares; after the last test of a file. */
export async function closeBrowser(): Promise<void> {
  await (await launched)?.close();
  launched = null;
}

/** A page of a browser of its own, which notes what went wrong in it. */
export class WatchedPage implements AsyncDisposable {
  readonly page: Page;
  /** Errors of scripts and refusals of the Content-Security-Policy. */
  readonly errors: string[] = [];

  private constructor(page: Page) {
    this.page = page;
    page.on("pageerror", (error) => this.errors.push(error.stack ?? error.message));
    page.on("dialog", (dialog) => (this.errors.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
    page.on("console", (message) => {
      // Answers that are problems are in the console too; what they mean is on the page.
      const is_answer = /^Failed to load resource/.test(message.text());
      if (message.type() === "error" && !is_answer) this.errors.push(message.text());
    });
  }

  static async open(options: BrowserContextOptions = {}): Promise<WatchedPage> {
    const browser = await (launched ??= launchChromium());
    const context = await browser.newContext({ reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    await slowDown(context);
    return new WatchedPage(await context.newPage());
  }

  /** What it shows, for the report of a failure. */
  async words(): Promise<string> {
    const text = await this.page.evaluate<string>("document.body.innerText").catch(String);
    return `${this.page.url()} shows:\n${text}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.page.context().close();
  }
}

/** A part of a test with a name of its own. */
export type Step = (name: string, part: () => Promise<void>) => Promise<void>;

/**
 * A test with a page; it fails when the page had an error. Its sanitizers are off, because the browser, and often the
 * server, live longer than one test.
 */
export function browserTest(
  name: string,
  body: (page: Page, step: Step) => Promise<void>,
  options: BrowserContextOptions = {},
): void {
  if (findChromium() === null && Deno.env.get("REQUIRE_BROWSER") !== "1") {
    return Deno.test({ name: `${name} (skipped: there is no Chromium)`, ignore: true, fn: () => {} });
  }
  Deno.test({
    name,
    sanitizeOps: false,
    sanitizeResources: false,
    async fn(test) {
      await using watched = await WatchedPage.open(options);
      try {
        await body(watched.page, async (name, part) => {
          // What follows a failed step would wait in vain.
          if (!await test.step(name, part)) throw new Error(`"${name}" failed`);
        });
      } catch (error) {
        console.error(await watched.words());
        throw error;
      }
      assert.deepEqual(watched.errors, []);
    },
  });
}
