/** Visibility and soft cap: the part that all attention shaders link. */

import { assert } from "../../core/errors.ts";
import type { WgslPart } from "../kernel.ts";
import { softCapParts } from "../soft_cap/soft_cap.ts";
import { constantsPart, itemPart } from "../variant.ts";
import visibilityWgsl from "./visibility.wgsl" with { type: "text" };

/** How scores are computed from queries and keys. */
export interface AttentionRules {
  /** The factor of q·k, usually 1 / √D. */
  scale: number;
  /** A row at position p sees the keys at positions above p − window; null or absent: all up to its own. */
  window?: number | null;
  /** A score s becomes `cap · tanh(s / cap)`; null or absent: no cap. */
  soft_cap?: number | null;
}

/** The rules compiled into a kernel: window and cap, 0 for none. */
type VisibilityKey = readonly [window: number, soft_cap: number];

/** The rules as a kernel's key. */
export function visibilityKey({ window, soft_cap }: AttentionRules): VisibilityKey {
  const none = window === undefined || window === null;
  assert(
    none || Number.isInteger(window) && window > 0 && window < 2 ** 31,
    `a window above 0, not ${window}`,
  );
  assert((soft_cap ?? 1) > 0, `a soft cap above 0, not ${soft_cap}`);
  return [window ?? 0, soft_cap ?? 0];
}

/** The WGSL that defines the functions of visibility.wgsl, `soft_cap` and `soft_cap_gradient`. */
export function visibilityParts(...[window, soft_cap]: VisibilityKey): WgslPart[] {
  return [
    itemPart(1),
    ...softCapParts(soft_cap),
    constantsPart({ window }),
    { file: "visibility.wgsl", text: visibilityWgsl },
  ];
}
