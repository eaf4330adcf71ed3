/** A button that copies a text. */

import { useState } from "preact/hooks";

/** How long it says that the text is copied. */
const SAID_MS = 2000;

interface CopyButtonProps {
  text: string;
  /** What is copied, for those who do not see what the button stands beside. */
  what: string;
  label?: string;
}

export function CopyButton({ text, what, label = "Copy" }: CopyButtonProps) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    // A page that came over plain HTTP from another machine has no clipboard.
    const is_copied = await navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false;
    setSaid(is_copied ? "Copied" : "Select the text to copy it");
    setTimeout(() => setSaid(""), SAID_MS);
  };
  return (
    <button type="button" class="copy" onClick={copy}>
      {label} <span class="unseen">{what}</span>
      <span role="status" class="said">{said}</span>
    </button>
  );
}
