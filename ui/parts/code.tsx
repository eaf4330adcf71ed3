/** A text as a tool, a model or a person wrote it: JSON and code with colours, long ones folded. */

import type { Mark } from "./difference.ts";
import { type Piece, piecesOf } from "./highlight.ts";

/** Texts that are longer are folded. */
const FOLDED_CHARS = 600;

function shown({ text, kind }: Piece, key: number) {
  return kind === "plain" ? text : <span key={key} class={`code-${kind}`}>{text}</span>;
}

/** The part of a text that is marked, with what is before and after it. */
function Marked({ text, mark: { start, end } }: { text: string; mark: Mark }) {
  return (
    <pre class="text" tabIndex={-1}>
      {text.slice(0, start)}
      <mark class="parting" aria-label="the first difference">{start === end ? "⟨end⟩" : text.slice(start, end)}</mark>
      {text.slice(end)}
    </pre>
  );
}

interface CodeProps {
  text: string;
  /** Shown in place of the colours of code; the text is not folded. */
  mark?: Mark | null;
  /** Whether a long text is not folded. */
  is_whole?: boolean;
}

export function Code({ text, mark = null, is_whole = false }: CodeProps) {
  if (mark) return <Marked text={text} mark={mark} />;
  if (is_whole || text.length <= FOLDED_CHARS) return <pre class="text">{piecesOf(text).map(shown)}</pre>;
  return (
    <details class="long">
      <summary>
        <pre class="text">{piecesOf(text.slice(0, FOLDED_CHARS)).map(shown)} …</pre>
        <span class="quiet to-open">{text.length.toLocaleString("en")} characters: show all</span>
        <span class="quiet to-fold">fold</span>
      </summary>
      <pre class="text">{piecesOf(text).map(shown)}</pre>
    </details>
  );
}
