/** The editor of TOML texts. In a chunk of its own. */

import {
  acceptCompletion,
  autocompletion,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Proposals } from "./completion.ts";
import type { LineRemark } from "./places.ts";

export interface TomlEditorOptions {
  text: string;
  /** The name for those who do not see it. */
  label: string;
  onChange(text: string): void;
  /** @param before The lines up to the cursor. */
  propose(before: readonly string[]): Proposals | null;
}

const THEME = EditorView.theme({
  "&": {
    height: "100%",
    color: "var(--text)",
    backgroundColor: "var(--surface)",
    fontSize: "var(--size-2)",
  },
  // The box around the editor shows the focus.
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: "var(--space-2) 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": {
    color: "var(--quiet)",
    backgroundColor: "var(--surface)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--raised) 55%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent)",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--raised)" },
  ".cm-tooltip": {
    color: "var(--text)",
    backgroundColor: "var(--surface)",
    border: "1px solid var(--line)",
    borderRadius: "var(--radius)",
    maxWidth: "30rem",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    color: "var(--on-accent)",
    backgroundColor: "var(--accent)",
  },
  ".cm-completionDetail": { color: "var(--quiet)", fontStyle: "normal" },
  ".cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionInfo": { padding: "var(--space-2) var(--space-3)", fontFamily: "var(--font)" },
  ".cm-diagnostic": { fontFamily: "var(--font)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warning)" },
  ".cm-lintRange-error": { background: "none", borderBottom: "2px solid var(--bad)" },
  ".cm-lintRange-warning": { background: "none", borderBottom: "2px dotted var(--warning)" },
});

const COLOURS = HighlightStyle.define([
  { tag: tags.comment, color: "var(--quiet)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: tags.number, color: "var(--info)" },
  { tag: tags.atom, color: "var(--info)" },
  { tag: tags.propertyName, color: "var(--text)" },
  { tag: tags.bracket, color: "var(--accent)" },
]);

/** The marks of remarks: each underlines its line from the first character on. */
function diagnosticsOf(doc: Text, remarks: readonly LineRemark[]): Diagnostic[] {
  return remarks.map(({ line: number, column, severity, message }) => {
    const line = doc.line(Math.min(Math.max(number, 1), doc.lines));
    const indent = column === null ? line.text.search(/\S|$/) : Math.min(column - 1, line.length);
    return { from: line.from + indent, to: line.to, severity, message };
  }).sort((a, b) => a.from - b.from);
}

/** An editor in an element, which it fills. */
export class TomlEditor {
  readonly #view: EditorView;

  constructor(parent: HTMLElement, { text, label, onChange, propose }: TomlEditorOptions) {
    const complete = ({ state, pos }: CompletionContext): CompletionResult | null => {
      const found = propose(state.doc.sliceString(0, pos).split("\n"));
      if (!found) return null;
      return {
        from: state.doc.lineAt(pos).from + found.from,
        options: [...found.options],
        validFor: /^"?[\w.-]*$/,
      };
    };
    const extensions = [
      lineNumbers(),
      lintGutter(),
      history(),
      drawSelection(),
      highlightActiveLine(),
      bracketMatching(),
      StreamLanguage.define(toml),
      syntaxHighlighting(COLOURS),
      autocompletion({ override: [complete], icons: false }),
      // Tab takes a proposal while there are some, and leaves the editor otherwise.
      keymap.of([
        { key: "Tab", run: acceptCompletion },
        ...completionKeymap,
        ...lintKeymap,
        ...historyKeymap,
        ...defaultKeymap,
      ]),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
      EditorView.updateListener.of(({ docChanged, state }) => docChanged && onChange(state.doc.toString())),
      THEME,
    ];
    // In a shadow root the editor's styles are sheets that scripts made. In the page they would be style elements, which
    // the server's Content-Security-Policy refuses.
    const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
    this.#view = new EditorView({ parent: root, root, state: EditorState.create({ doc: text, extensions }) });
  }

  /** Replaces the text, which may be undone. */
  setText(text: string): void {
    const { doc } = this.#view.state;
    if (doc.toString() !== text) this.#view.dispatch({ changes: { from: 0, to: doc.length, insert: text } });
  }

  /** Marks lines, in place of the marks before. */
  remark(remarks: readonly LineRemark[]): void {
    this.#view.dispatch(setDiagnostics(this.#view.state, diagnosticsOf(this.#view.state.doc, remarks)));
  }

  /** Puts the cursor at the start of a line, from 1. */
  goTo(line: number): void {
    const { doc } = this.#view.state;
    const { from } = doc.line(Math.min(Math.max(line, 1), doc.lines));
    this.#view.dispatch({ selection: { anchor: from }, scrollIntoView: true });
    this.#view.focus();
  }

  close(): void {
    this.#view.destroy();
  }
}
