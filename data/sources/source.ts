/** Published datasets in forms of their own, and the rows of this program's files that they give. */

/** The files of rows that a source can give. */
export const ROW_KINDS = ["scenarios", "sft", "fixtures"] as const;

/** `scenarios`: tasks; `sft`: training examples; `fixtures`: labelled groups for `svc judge eval`. */
export type RowKind = typeof ROW_KINDS[number];

/** A file's content: the document of a JSON file, or the objects of the lines of a JSONL file. */
export type SourceContent = { document: unknown } | { lines: readonly unknown[] };

/** One row of a file, as an object. */
export type SourceRow = Record<string, unknown>;

/** A form of published datasets. */
export interface DatasetSource<Read = unknown> {
  /** Its name, as its publishers write it. */
  name: string;
  /** What a file of this form looks like, for messages. */
  form: string;
  /** The checked content; null when it has another form. @throws {ServiceError} `data_invalid`: this form with errors. */
  read(content: SourceContent, path: string): Read | null;
  /** The named parts of the content, of which rows come from one; empty when it has no parts. */
  splits(read: Read): readonly string[];
  /** The rows by kind; the first kind is the default. @param split One of {@link splits}. */
  rows: { readonly [K in RowKind]?: (read: Read, split: string | null) => SourceRow[] };
}
