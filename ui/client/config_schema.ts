/** The keys of a run's configuration, as `GET /v1/config-schema` describes them. */

/** The parts of JSON Schema that the server's description has. */
interface Schema {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: readonly string[];
  properties?: Readonly<Record<string, Schema>>;
  items?: Schema;
}

/** A key of the configuration. */
export interface ConfigKey {
  /** Dotted; keys of a list of tables have its name before them. */
  key: string;
  description: string;
  /** JSON Schema's type; null for a key with several forms. */
  type: string | null;
  /** Undefined for a key that has none, or whose value a rule derives. */
  default: unknown;
  /** All values of a key that has few. */
  values: readonly string[] | null;
}

/** The sections and the keys of a configuration. */
export interface ConfigKeys {
  /** The tables by dotted name, such as `agent.environment`, with what they are for. */
  sections: ReadonlyMap<string, string>;
  keys: ReadonlyMap<string, ConfigKey>;
}

/** Reads the server's JSON Schema. A list of tables is a section under its name. */
export function configKeysOf(schema: object): ConfigKeys {
  const sections = new Map<string, string>(), keys = new Map<string, ConfigKey>();
  const read = ({ properties = {} }: Schema, prefix: string) => {
    for (const [name, inner] of Object.entries(properties)) {
      const key = prefix + name, { description = "", type = null, enum: values = null } = inner;
      const table = inner.properties ? inner : inner.items?.properties ? inner.items : null;
      if (!table) {
        keys.set(key, { key, description, type, default: inner.default, values });
        continue;
      }
      sections.set(key, description);
      read(table, `${key}.`);
    }
  };
  read(schema as Schema, "");
  return { sections, keys };
}
