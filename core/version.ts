/** The program's version and build. */

/** The version, as in the API. */
export const VERSION = "0.1.0";

/** The source of a bundled program (scripts/bundle.ts writes it into the file). */
export interface Build {
  /** The commit, with `-dirty` when files were changed; null when it was not a git checkout. */
  commit: string | null;
  /** The parts that were left out. */
  without?: readonly OptionalPart[];
  /** The files of the web interface by their path in its folder, compressed with gzip, in base64. */
  interface_files?: Readonly<Record<string, string>>;
}

/** Parts that a build can be made without: MCP servers as tools, the container sandbox, and the web interface. */
export const OPTIONAL_PARTS = ["mcp", "containers", "ui"] as const;

/** One of {@link OPTIONAL_PARTS}. */
export type OptionalPart = typeof OPTIONAL_PARTS[number];

/** Null in a source checkout. */
export const BUILD: Build | null = (globalThis as { SVC_BUILD?: Build }).SVC_BUILD ?? null;

/** The version and, of a bundled program, its commit: `0.1.0 (2f1a…)`. */
export const VERSION_TEXT = BUILD?.commit ? `${VERSION} (${BUILD.commit})` : VERSION;

/** Whether a part was left out of this build. */
export function isLeftOut(part: OptionalPart, build: Build | null = BUILD): boolean {
  return build?.without?.includes(part) ?? false;
}
