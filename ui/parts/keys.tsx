/** Keys of a page without a modifier, and the visible list of them. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

/** What a key does. */
export interface KeyBinding {
  /** As in `KeyboardEvent.key`; several do the same. */
  keys: readonly string[];
  /** "next attempt". */
  what: string;
  /** Absent: it can do nothing now. */
  action?: (() => void) | undefined;
}

const STORAGE_KEY = "svc-keys";

/** Single keys can be in the way of speech input and screen readers, so each browser can turn them off. */
const is_on = signal(globalThis.localStorage?.getItem?.(STORAGE_KEY) !== "off");

function turn(on: boolean): void {
  is_on.value = on;
  localStorage.setItem(STORAGE_KEY, on ? "on" : "off");
}

/** What of a key's event decides whether it is meant for the page. */
export type PressedKey = Pick<
  KeyboardEvent,
  "key" | "ctrlKey" | "metaKey" | "altKey" | "defaultPrevented"
>;

/** The binding that a key means; none with a modifier, or for a key that something else has used. */
export function bindingOf(bindings: readonly KeyBinding[], event: PressedKey): KeyBinding | null {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return null;
  return bindings.find(({ keys }) => keys.includes(event.key)) ?? null;
}

/** Elements that take keys themselves. */
const TYPED_IN = "input, select, textarea, [contenteditable], [role=listbox]";

/** Listens to keys while the component is shown. */
export function useKeys(bindings: readonly KeyBinding[]): void {
  const newest = useRef(bindings);
  newest.current = bindings;
  useEffect(() => {
    const abort = new AbortController();
    addEventListener("keydown", (event) => {
      if (!is_on.value || (event.target as Element).matches?.(TYPED_IN)) return;
      const binding = bindingOf(newest.current, event);
      if (!binding?.action) return;
      event.preventDefault();
      binding.action();
    }, { signal: abort.signal });
    return () => abort.abort();
  }, []);
}

const KEY_SIGNS: Readonly<Record<string, string>> = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
};

/** The list of a page's keys. */
export function Shortcuts({ bindings }: { bindings: readonly KeyBinding[] }) {
  return (
    <aside class="shortcuts" aria-label="keyboard shortcuts">
      <ul>
        {bindings.map(({ keys, what }) => (
          <li key={what}>
            {keys.map((key) => <kbd key={key}>{KEY_SIGNS[key] ?? key}</kbd>)} {what}
          </li>
        ))}
      </ul>
      <label class="check">
        <input
          type="checkbox"
          checked={is_on.value}
          onChange={({ currentTarget }) => turn(currentTarget.checked)}
        />
        Use these keys
      </label>
    </aside>
  );
}
