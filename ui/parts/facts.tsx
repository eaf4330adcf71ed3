/** A row of facts: a name above each value. */

/** A fact by its name. */
export type Fact = readonly [name: string, text: string];

export function Facts({ facts, is_small = false }: { facts: readonly Fact[]; is_small?: boolean }) {
  return (
    <dl class={is_small ? "facts small" : "facts"}>
      {facts.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}
