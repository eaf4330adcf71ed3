/** A text as its tokens, with those that are trained marked. */

import { useId, useState } from "preact/hooks";
import { nextToken, nextTrained, shownToken } from "./token_steps.ts";

/** A token of a text. */
export interface MarkedToken {
  id: number;
  text: string;
  /** Where it comes from, in a word. */
  origin: string;
  trained: boolean;
}

/** The values of one token, at a fixed place: nothing moves while one looks around. */
function Readout({ token, at }: { token: MarkedToken | undefined; at: number }) {
  return (
    <p class="marked-readout">
      {token
        ? (
          <>
            <span>token {at.toLocaleString("en")}</span>
            <code>{JSON.stringify(token.text)}</code>
            <span>id {token.id}</span>
            <span>{token.origin}</span>
            <strong>{token.trained ? "trained" : "not trained"}</strong>
          </>
        )
        : <span class="quiet">Point at a token, or go through them with the arrow keys.</span>}
    </p>
  );
}

/**
 * The tokens of a text. The one that is pointed at, or chosen with the arrow keys, Home and End, is told in full.
 *
 * @param label What the text is.
 */
export function Tokens({ tokens, label }: { tokens: readonly MarkedToken[]; label: string }) {
  const [at, setAt] = useState(-1), id = useId();
  const point = ({ target }: Event) => {
    const place = (target as HTMLElement).dataset?.at;
    if (place !== undefined) setAt(Number(place));
  };
  const go = (to: number) => {
    setAt(to);
    document.getElementById(`${id}-${to}`)?.scrollIntoView({ block: "nearest" });
  };
  const next_trained = nextTrained(tokens, at);
  return (
    <div class="marked-tokens">
      <div class="marked-bar">
        <Readout token={tokens[at]} at={at} />
        <button
          type="button"
          class="plain"
          disabled={next_trained === null}
          onClick={() => next_trained !== null && go(next_trained)}
        >
          Next trained part
        </button>
      </div>
      <div
        class="marked-text"
        role="listbox"
        aria-label={label}
        aria-activedescendant={at < 0 ? undefined : `${id}-${at}`}
        tabIndex={0}
        onMouseOver={point}
        onClick={point}
        onKeyDown={(event) => {
          const next = nextToken(event.key, at, tokens.length);
          if (next === null) return;
          event.preventDefault();
          go(next);
        }}
      >
        {tokens.map(({ text, trained }, i) => (
          <span
            key={i}
            id={`${id}-${i}`}
            data-at={i}
            role="option"
            aria-selected={i === at}
            class={trained ? "marked is-trained" : "marked"}
          >
            {shownToken(text)}
          </span>
        ))}
      </div>
    </div>
  );
}
