/** The grounds of tokens: their text can be read, and their steps are seen by people with any colour vision. */

import assert from "node:assert/strict";

type Triple = [number, number, number];

/**
 * What a person without one kind of cone sees, in linear sRGB: Machado, Oliveira and Fernandes, "A physiologically-based
 * model for simulation of color vision deficiency" (2009), severity 1.0.
 */
const VISIONS: Readonly<Record<string, readonly Triple[]>> = {
  usual: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [
    -0.003882,
    -0.048116,
    1.051998,
  ]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [
    -0.01182,
    0.04294,
    0.968881,
  ]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [
    0.004733,
    0.691367,
    0.3039,
  ]],
};

/** Distances in OKLab: neighbours are about 0.02 apart where one sees them side by side. */
const NEIGHBOURS = 0.02, ENDS = 0.15;
const TEXT_CONTRAST = 4.5;

const css = await Deno.readTextFile(new URL("tokens.css", import.meta.url));
const [light = "", dark = ""] = css.split("@media");

function linear(hex: string): Triple {
  return [1, 3, 5].map((at) => {
    const part = parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as Triple;
}

const times = (matrix: readonly Triple[], [a, b, c]: Triple) =>
  matrix.map(([x, y, z]) => x * a + y * b + z * c) as Triple;

const luminance = (colour: Triple) => times([[0.2126, 0.7152, 0.0722]], colour)[0]!;

/** OKLab of linear sRGB, with the matrices of its author, Björn Ottosson. */
function oklab(colour: Triple): Triple {
  const cones = times([
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
  ], colour.map((part) => Math.max(0, part)) as Triple).map(Math.cbrt) as Triple;
  return times([
    [0.2104542553, 0.793617785, -0.0040720468],
    [1.9779984951, -2.428592205, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
  ], cones);
}

for (const [theme, text] of [["light", light], ["dark", dark]] as const) {
  const colours = new Map(
    [...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, hex]) => [name!, hex!]),
  );
  const of = (name: string) => linear(colours.get(name)!);
  const steps = (scale: string) => Array.from({ length: 7 }, (_, i) => `${scale}-${i}`);

  Deno.test(`tokens can be read on every ground of the ${theme} theme`, () => {
    for (const name of [...steps("div"), ...steps("seq"), "tone-model", "tone-tool", "tone-forced"]) {
      const [low, high] = [luminance(of(name)), luminance(of("text"))].sort((a, b) => a - b) as [
        number,
        number,
      ];
      const contrast = (high + 0.05) / (low + 0.05);
      assert.ok(contrast >= TEXT_CONTRAST, `${name}: ${contrast.toFixed(2)}`);
    }
  });

  Deno.test(`the steps of both scales of the ${theme} theme differ for every kind of colour vision`, () => {
    for (const [vision, matrix] of Object.entries(VISIONS)) {
      const distance = (a: string, b: string) => {
        const [p, q] = [a, b].map((name) => oklab(times(matrix, of(name)))) as [Triple, Triple];
        return Math.hypot(...p.map((part, i) => part - q[i]!));
      };
      for (const scale of ["div", "seq"]) {
        const names = steps(scale);
        names.slice(1).forEach((name, i) => {
          const apart = distance(names[i]!, name);
          assert.ok(apart >= NEIGHBOURS, `${vision}: ${names[i]} and ${name} are ${apart.toFixed(3)} apart`);
        });
        const ends = distance(names[0]!, names[6]!);
        assert.ok(ends >= ENDS, `${vision}: the ends of ${scale} are ${ends.toFixed(3)} apart`);
      }
    }
  });

  Deno.test(`the scale of the ${theme} theme goes in one direction, and the other one away from its middle`, () => {
    const sign = theme === "light" ? 1 : -1;
    const rises = (names: string[]) =>
      names.slice(1).every((name, i) => sign * (luminance(of(name)) - luminance(of(names[i]!))) > 0);
    const [low, high] = [steps("div").slice(0, 4), steps("div").slice(3).reverse()];
    assert.ok(rises(steps("seq")) && rises(low) && rises(high));
  });
}
