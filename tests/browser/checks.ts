/** Checks of a page that is shown: rules of WCAG, and where the Tab key leads. */

import axe from "axe-core";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

/** The rules that a page breaks, with the elements. */
export async function brokenRules(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<AxeResults>("axe.run()");
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
}

/** Frames in which the browser has scrolled to what has the focus. */
const MAX_FRAMES = 120;

/** What has the focus; null where it is on nothing of the page. */
const FOCUSED = `(async () => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const isSeen = () => {
    const box = element.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  };
  // The browser may scroll to it in one of the next frames.
  for (let i = 0; i < ${MAX_FRAMES} && !isSeen(); i++) await new Promise(requestAnimationFrame);
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  return {
    html: element.outerHTML.slice(0, 120),
    has_ring: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2,
    is_seen: isSeen(),
  };
})()`;

interface Focused {
  html: string;
  has_ring: boolean;
  is_seen: boolean;
}

/** More stops than any page has. */
const MAX_STOPS = 500;

/** What the Tab key leads to, from the beginning of a page to its end. */
export async function tabStops(page: Page): Promise<Focused[]> {
  const stops: Focused[] = [];
  for (let i = 0; i < MAX_STOPS; i++) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate<Focused | null>(FOCUSED);
    if (focused === null || (stops.length > 0 && focused.html === stops[0]!.html)) return stops;
    stops.push(focused);
  }
  throw new Error(`the Tab key does not come to the end of the page: ${JSON.stringify(stops.slice(-3))}`);
}

/** Presses Tab until something with this text has the focus. */
export async function tabTo(page: Page, text: string): Promise<void> {
  for (let i = 0; i < MAX_STOPS; i++) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate<string>("document.activeElement.textContent.trim()");
    if (focused === text) return;
  }
  throw new Error(`the Tab key does not lead to "${text}"`);
}
