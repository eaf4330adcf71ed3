import assert from "node:assert/strict";

/** What WCAG 2.2 AA asks of text, and of lines that mean something. */
const TEXT_CONTRAST = 4.5, GRAPHIC_CONTRAST = 3;
const TEXTS = ["text", "quiet", "accent", "info", "good", "warning", "bad"];
const GROUNDS = ["ground", "surface", "raised"];

const css = await Deno.readTextFile(new URL("tokens.css", import.meta.url));

/** The colours of a theme, by name. */
function coloursOf(text: string): Map<string, string> {
  return new Map([...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, hex]) => [name!, hex!]));
}

/** Relative luminance as WCAG defines it. */
function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const [light = "", dark = ""] = css.split("@media");
for (const [theme, text] of [["light", light], ["dark", dark]] as const) {
  Deno.test(`every text of the ${theme} theme can be read on every ground, and every series seen`, () => {
    const colours = coloursOf(text), low: string[] = [];
    const check = (name: string, ground: string, least: number) => {
      const value = contrast(colours.get(name)!, colours.get(ground)!);
      if (value < least) low.push(`${name} on ${ground}: ${value.toFixed(2)}`);
    };
    for (const ground of GROUNDS) for (const name of TEXTS) check(name, ground, TEXT_CONTRAST);
    check("on-accent", "accent", TEXT_CONTRAST);
    for (let n = 1; n <= 10; n++) check(`series-${n}`, "surface", GRAPHIC_CONTRAST);
    assert.deepEqual(low, []);
  });
}
