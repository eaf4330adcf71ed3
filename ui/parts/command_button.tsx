/** Buttons that can be off and keep the focus. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

/** A button whose clicks are ignored while it is off. */
export function CommandButton({ is_off, kind, onClick, children }: {
  is_off: boolean;
  kind?: "danger" | "primary";
  onClick(): void;
  children: ComponentChildren;
}) {
  return (
    <button type="button" class={kind} aria-disabled={is_off} onClick={() => is_off || onClick()}>
      {children}
    </button>
  );
}

/** A button for what cannot be taken back: it asks first. The place of the first click is then that of the way back. */
export function AskTwice({ label, sure, keep, note, is_off, at_once = false, onSure }: {
  label: string;
  /** What the second button says. */
  sure: string;
  /** What the way back says. */
  keep: string;
  /** What is to know before. */
  note?: string;
  is_off: boolean;
  /** Does not ask. */
  at_once?: boolean;
  onSure(): void;
}) {
  const [was_asked, setAsked] = useState(false), first = useRef<HTMLButtonElement>(null);
  const is_asked = was_asked && !at_once && !is_off;
  const take = () => {
    setAsked(false);
    first.current?.focus();
    onSure();
  };
  const change = () => at_once ? onSure() : setAsked(!is_asked);
  return (
    <>
      <button
        ref={first}
        type="button"
        class={is_asked ? undefined : "danger"}
        aria-disabled={is_off}
        onClick={() => is_off || change()}
      >
        {is_asked ? keep : label}
      </button>
      {is_asked && <button type="button" class="danger" onClick={take}>{sure}</button>}
      {is_asked && note !== undefined && <span class="quiet">{note}</span>}
    </>
  );
}
