/**
 * `deno task screenshots [--only <name>,...]`: pictures of every page of the web interface, in both themes and at three
 * widths, in docs/screenshots. The pages show a run like that of `./dev demo`, on a server of its own. `cwebp` (Debian's
 * package webp) writes the files.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Browser, Page } from "playwright-core";
import { launchChromium } from "../tests/browser/browser.ts";
import { openPage, PAGES, type ShownPage, type Subjects } from "../tests/browser/pages.ts";
import { logIn } from "../tests/browser/parts.ts";
import { makeSubjects, TOKEN, World } from "../tests/browser/world.ts";

const FOLDER = fileURLToPath(new URL("../docs/screenshots", import.meta.url));
const EXAMPLES = fileURLToPath(new URL("../examples/", import.meta.url));

const THEMES = ["light", "dark"] as const;
/** A telephone, a tablet and a screen. */
const SIZES = [
  { width: 390, height: 844, is_touched: true },
  { width: 820, height: 1180, is_touched: true },
  { width: 1440, height: 900, is_touched: false },
];
const UPDATES = 20;
/** Of all pictures together. */
const MAX_BYTES = 2 << 20;

/**
 * In a page: a PNG with fewer colours, which lossless WebP makes half as large, and text stays sharp. A colour that is not
 * on one of 2000 pixels becomes the nearest frequent one where no channel differs by more than 24, and no difference of two
 * channels by more than 8.
 */
const WITH_FEWER_COLOURS = `async (png) => {
  const image = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height);
  const colours = new Uint32Array(pixels.data.buffer), counts = new Map();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  // Shades of one hue may be further apart than hues.
  const measures = (colour) => {
    const [r, g, b] = [colour & 255, colour >> 8 & 255, colour >> 16 & 255];
    return [r, g, b, 3 * (r - g), 3 * (g - b)];
  };
  const kept = [], replaced = new Map();
  for (const [colour, count] of [...counts].sort((a, b) => b[1] - a[1])) {
    const own = measures(colour);
    const distances = kept.map((other) => Math.max(...measures(other).map((value, i) => Math.abs(value - own[i]))));
    const nearest = Math.min(...distances);
    const is_kept = count * 2000 > colours.length || nearest > 24;
    if (is_kept) kept.push(colour);
    replaced.set(colour, is_kept ? colour : kept[distances.indexOf(nearest)]);
  }
  colours.forEach((colour, i) => colours[i] = replaced.get(colour));
  context.putImageData(pixels, 0, 0);
  const bytes = new Uint8Array(await (await context.canvas.convertToBlob()).arrayBuffer());
  return bytes.toBase64();
}`;

/** A PNG as lossless WebP. @throws {Error} When `cwebp` is missing or fails. */
async function asWebp(png: Uint8Array): Promise<Uint8Array> {
  const args = ["-quiet", "-lossless", "-m", "6", "-q", "100", "-o", "-", "--", "-"];
  const child = new Deno.Command("cwebp", { args, stdin: "piped", stdout: "piped" }).spawn();
  const [{ success, stdout }] = await Promise.all([
    child.output(),
    new Blob([png.slice()]).stream().pipeTo(child.stdin),
  ]);
  if (!success) throw new Error("Cannot write a picture: cwebp failed, see above");
  return stdout;
}

/** A picture of what is seen, as WebP. */
export async function picture(page: Page): Promise<Uint8Array> {
  const session = await page.context().newCDPSession(page);
  // Two frames later what was loaded last is drawn too.
  await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
  const { data } = await session.send("Page.captureScreenshot", { format: "png" });
  const blank = await page.context().newPage();
  const png = await blank.evaluate<string>(`(${WITH_FEWER_COLOURS})(${JSON.stringify(data)})`);
  await blank.close();
  return await asWebp(Uint8Array.fromBase64(png));
}

/** The run of `./dev demo`, but long and large enough that its reward visibly rises. It takes some minutes. */
async function trainDemo(world: World): Promise<Subjects> {
  for (const name of ["train", "heldout"]) {
    await Deno.copyFile(join(EXAMPLES, `tiny_agent_tasks.${name}.jsonl`), world.file(`${name}.jsonl`));
  }
  const params = {
    ...{ "training.ctx": 1024, "training.lr": 3e-3, "run.seed": 1, "lora.rank": 8, "lora.alpha": 16 },
    ...{ "agent.scenarios_per_update": 8, "agent.group_size": 8, "agent.max_turns": 6 },
    ...{ "agent.max_new_tokens_per_turn": 96, "agent.truncation": "drop" },
    ...{ "evaluation.every_updates": 5, "evaluation.samples_per_scenario": 2, "evaluation.temperature": 1 },
  };
  const recipe = { name: "tiny-agent", budget: { updates: UPDATES }, params };
  return (await makeSubjects(world, recipe)).subjects;
}

/** Makes the pictures of pages of one theme at one size. @returns Their bytes. */
async function makePictures(
  browser: Browser,
  { world, subjects, pages, theme, size }: {
    world: World;
    subjects: Subjects;
    pages: readonly ShownPage[];
    theme: typeof THEMES[number];
    size: typeof SIZES[number];
  },
): Promise<number> {
  const { is_touched: isMobile, ...viewport } = size;
  const context = await browser.newContext({
    ...{ viewport, isMobile, hasTouch: isMobile, colorScheme: theme, reducedMotion: "reduce" },
  });
  const page = await context.newPage();
  let bytes = 0;
  const store = async (name: string) => {
    const data = await picture(page);
    await Deno.writeFile(join(FOLDER, `${name}_${theme}_${size.width}.webp`), data);
    bytes += data.length;
  };
  await page.goto(world.url);
  await page.getByLabel("Token").waitFor();
  if (pages.length === PAGES.length) await store("login");
  await logIn(page, TOKEN);
  // Nothing is pointed at.
  await page.mouse.move(0, 0);
  for (const shown of pages) {
    await openPage(page, shown, { url: world.url, subjects });
    // Trends are asked for when their rows are in view.
    if (shown.name === "runs") await page.waitForSelector(".sparkline path[d^=M]", { state: "attached" });
    // What the run came to is told when its evaluations are known.
    await page.locator(".phase:empty").waitFor({ state: "detached" });
    await store(shown.name);
  }
  await context.close();
  return bytes;
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { only: { type: "string" } } });
  const only = values.only?.split(","), pages = PAGES.filter(({ name }) => only?.includes(name) ?? true);
  if (pages.length < (only?.length ?? 1)) {
    console.error(`There are these pages: ${PAGES.map(({ name }) => name).join(", ")}`);
    Deno.exit(2);
  }
  await Deno.mkdir(FOLDER, { recursive: true });
  const browser = await launchChromium();
  await using world = await World.start();
  const subjects = await trainDemo(world);
  let bytes = 0;
  for (const theme of THEMES) {
    for (const size of SIZES) bytes += await makePictures(browser, { world, subjects, pages, theme, size });
  }
  await browser.close();
  console.log(`wrote ${(bytes / 1024).toFixed(0)} KiB to ${FOLDER}`);
  if (bytes > MAX_BYTES) {
    console.error(`These are more than ${MAX_BYTES} bytes: show fewer pages`);
    Deno.exitCode = 1;
  }
}
