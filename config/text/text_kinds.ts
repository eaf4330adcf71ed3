/**
 * What the texts of a schema are, as its `.meta({ texts })`. A text without a kind is prose of this program, which may
 * name paths of the machine: a server with `redact_error_paths` shortens them.
 */
export type TextKind = keyof typeof TEXTS;

/** The metadata of each kind. */
export const TEXTS = {
  /** Texts of clients, and a model's answers to them: they stay as they are. */
  data: { texts: "data" },
  /** Output of tools and programs, and a model's text about it: only the server's own folders are taken out. */
  printed: { texts: "printed" },
  /** A configuration, of which only the keys that hold paths have them. */
  config: { texts: "config" },
  /** A key of a configuration, with its `values`. */
  config_key: { texts: "config_key" },
} as const;
