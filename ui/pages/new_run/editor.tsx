/** The text of a whole configuration. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ConfigKeys } from "../../client/config_schema.ts";
import { ProblemBox } from "../../parts/problem.tsx";
import { type OfferedValues, proposalsAt } from "./completion.ts";
import type { LineRemark } from "./places.ts";
import type { TomlEditor } from "./toml_editor.ts";

export interface EditorProps {
  text: string;
  /** Changes when the text was replaced; what is written in the editor itself comes back as {@link text} later. */
  replaced: number;
  onChange(text: string): void;
  known: ConfigKeys;
  offered: OfferedValues;
  remarks: readonly LineRemark[];
  /** Gets what puts the cursor at a line. */
  onReady(goTo: (line: number) => void): void;
}

export function Editor(props: EditorProps) {
  const box = useRef<HTMLDivElement>(null), editor = useRef<TomlEditor | null>(null);
  const newest = useRef(props), [error, setError] = useState<unknown>(null);
  const [is_ready, setReady] = useState(false);
  newest.current = props;
  useEffect(() => {
    let is_gone = false;
    import("./toml_editor.ts").then(({ TomlEditor }) => {
      if (is_gone) return;
      editor.current = new TomlEditor(box.current!, {
        text: newest.current.text,
        label: "Configuration, as TOML",
        onChange: (text) => newest.current.onChange(text),
        propose: (before) => proposalsAt(before, newest.current.known, newest.current.offered),
      });
      newest.current.onReady((line) => editor.current?.goTo(line));
      setReady(true);
    }, (cause) => is_gone || setError(cause));
    return () => {
      is_gone = true;
      editor.current?.close();
      editor.current = null;
    };
  }, []);
  useEffect(() => editor.current?.setText(newest.current.text), [props.replaced]);
  const marks = JSON.stringify(props.remarks);
  useEffect(() => editor.current?.remark(newest.current.remarks), [marks, is_ready]);
  if (error !== null) return <ProblemBox error={error} onRetry={() => location.reload()} />;
  return (
    <div class="toml-editor">
      <div ref={box} class="toml-text" />
      {!is_ready && <p class="loading">Loading the editor …</p>}
    </div>
  );
}
