/** The tokens of an attempt as they were trained, coloured by one of their values. */

import type { Signal } from "@preact/signals";
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TrajectoryMember, TrajectoryToken } from "../../api/types.ts";
import { usePages } from "../client/use_pages.ts";
import { place, replacePlace } from "../routes.ts";
import { Facts } from "./facts.tsx";
import { exactText } from "./format.ts";
import { ProblemBox } from "./problem.tsx";
import { firstShown, lineOf, linesOf, scrollFor, shownText, tokenAfterKey } from "./token_lines.ts";
import { differenceOf, type Layer, layerOf, LAYERS, probabilityOf, type Scale } from "./token_scales.ts";
import { windowOf } from "./window.ts";

/** Where the attempt is. */
export interface TokenPlace {
  id: string;
  update: string;
  group: string;
}

/** The height of a line in pixels; the style sheet has the same. */
const LINE_HEIGHT = 26;
/** The space between two tokens, in columns; the style sheet has the same. */
const GAP = 0.5;
/** Characters of the sample by which a column is measured. */
const SAMPLE = "0".repeat(50);
/** How long a token stays chosen before the address names it. */
const SETTLE_MS = 300;

/** A value of a token, or why there is none. */
function valueText({ origin }: TrajectoryToken, value: number | null): string {
  if (value !== null) return exactText(value);
  return origin === "model" ? "not recorded" : "–";
}

const CLIP_TEXTS = new Map<number | null, string>([[-1, "below"], [0, "no"], [1, "above"]]);

/** The exact values of a token, always in the same places. */
function Readout({ tokens, shown }: { tokens: readonly TrajectoryToken[]; shown: Signal<number> }) {
  const index = shown.value, token = tokens[index];
  if (!token) return <div class="readout" />;
  const probability = probabilityOf(token);
  return (
    <div class="readout" aria-live="polite">
      <p>
        <strong>{index}</strong> <code>{JSON.stringify(token.text)}</code>{" "}
        <span class="quiet">
          id {token.id}, {token.origin}, {token.trained ? "trained on" : "not trained on"}
        </span>
      </p>
      <Facts
        is_small
        facts={[
          ["Probability", valueText(token, probability)],
          ["Log p, sampler", valueText(token, token.sampler_logprob)],
          ["Log p, trainer", valueText(token, token.trainer_logprob)],
          ["Sampler − trainer", valueText(token, differenceOf(token))],
          ["Advantage", valueText(token, token.advantage)],
          ["Ratio", valueText(token, token.ratio)],
          ["Clipped", CLIP_TEXTS.get(token.clipped) ?? valueText(token, null)],
        ]}
      />
    </div>
  );
}

function LayerChoice({ layer }: { layer: Layer }) {
  const { segments, query } = place.value;
  return (
    <fieldset class="segmented layers">
      <legend class="unseen">colour by</legend>
      {Object.entries(LAYERS).map(([name, { label }]) => (
        <label key={name}>
          <input
            type="radio"
            name="layer"
            checked={name === layer}
            onChange={() => replacePlace(segments, { ...Object.fromEntries(query), layer: name })}
          />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** Leads to the first token of each turn. */
function TurnChoice({ turns, onChoose }: {
  turns: TrajectoryMember["turns"];
  onChoose(token: number): void;
}) {
  return (
    <div class="turn-choice" role="group" aria-label="go to a turn">
      {turns.map(({ turn, start }) =>
        start !== null && (
          <button key={turn} type="button" onClick={() => onChoose(start)}>turn {turn + 1}</button>
        )
      )}
    </div>
  );
}

function Legend({ scale }: { scale: Scale }) {
  return (
    <ul class="legend" aria-label="legend">
      {scale.legend.map(({ class_name, text, count }) => (
        <li key={class_name}>
          <span class={`swatch ${class_name}`} aria-hidden="true" /> {text}{" "}
          <span class="count">{count.toLocaleString("en")}</span>
        </li>
      ))}
    </ul>
  );
}

/** How many columns of the fixed-width font fit in an element, and how high it is. */
function useSize() {
  const box = useRef<HTMLDivElement>(null), probe = useRef<HTMLSpanElement>(null);
  const [size, setSize] = useState({ columns: 80, height: 400 });
  useEffect(() => {
    const measure = () => {
      if (!box.current) return;
      const column = (probe.current?.getBoundingClientRect().width ?? 0) / SAMPLE.length;
      const { clientWidth, clientHeight } = box.current, style = getComputedStyle(box.current);
      const width = clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      if (column > 0) setSize({ columns: Math.floor(width / column), height: clientHeight });
    };
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  return { box, probe, ...size };
}

/** What decides how a token is drawn. */
interface Shown {
  tokens: readonly TrajectoryToken[];
  scale: Scale;
  active: number;
}

/** The tokens from `start` to before `end`. */
function Line({ start, end, top, of: { tokens, scale, active } }: {
  start: number;
  end: number;
  top: number;
  of: Shown;
}) {
  return (
    <div class="line" role="presentation" style={{ top: `${top}px` }}>
      {tokens.slice(start, end).map((token, i) => {
        const index = start + i;
        return (
          <span
            key={index}
            id={`token-${index}`}
            data-token={index}
            role="option"
            aria-selected={index === active}
            aria-label={token.text.trim() === "" ? `white space ${JSON.stringify(token.text)}` : undefined}
            aria-setsize={tokens.length}
            aria-posinset={index + 1}
            class={`token-cell ${scale.classOf(token)}`}
          >
            {shownText(token.text)}
          </span>
        );
      })}
    </div>
  );
}

/** The lines of tokens, of which those in view are drawn. */
function Lines({ tokens, scale, active, shown, onChoose }: Shown & {
  shown: Signal<number>;
  onChoose(token: number): void;
}) {
  const { box, probe, columns, height } = useSize(), [top, setTop] = useState(0);
  const starts = useMemo(() => linesOf(tokens.map(({ text }) => text), columns, GAP), [tokens, columns]);
  const { first, last } = windowOf(starts.length, LINE_HEIGHT, { top, height });
  const line = lineOf(starts, active), is_there = active < tokens.length;
  useEffect(() => {
    if (!is_there) return;
    const at = line * LINE_HEIGHT, element = box.current!;
    element.scrollTop = scrollFor(at, { top: element.scrollTop, height, line: LINE_HEIGHT });
  }, [line, is_there, height]);
  const tokenAt = ({ target }: Event) => {
    const index = (target as HTMLElement).dataset.token;
    return index === undefined ? null : Number(index);
  };
  const press = (event: KeyboardEvent) => {
    const at = { starts, count: tokens.length, page: Math.floor(height / LINE_HEIGHT) - 1 };
    const next = tokens.length > 0 ? tokenAfterKey(event.key, active, at) : null;
    if (next === null || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    onChoose(next);
  };
  return (
    <div
      ref={box}
      class="token-lines"
      role="listbox"
      aria-label="tokens"
      aria-activedescendant={is_there ? `token-${active}` : undefined}
      tabIndex={0}
      onScroll={({ currentTarget }) => setTop(currentTarget.scrollTop)}
      onMouseOver={(event) => shown.value = tokenAt(event) ?? shown.value}
      onMouseLeave={() => shown.value = active}
      onClick={(event) => {
        const token = tokenAt(event);
        if (token !== null) onChoose(token);
      }}
      onKeyDown={press}
    >
      <span ref={probe} class="unseen probe" aria-hidden="true">{SAMPLE}</span>
      <div class="lines" role="presentation" style={{ height: `${starts.length * LINE_HEIGHT}px` }}>
        {starts.slice(first, last).map((start, i) => (
          <Line
            key={first + i}
            top={(first + i) * LINE_HEIGHT}
            start={start}
            end={starts[first + i + 1] ?? tokens.length}
            of={{ tokens, scale, active }}
          />
        ))}
      </div>
    </div>
  );
}

export function TokenView(
  { at: { id, update, group }, member }: { at: TokenPlace; member: TrajectoryMember },
) {
  const route = "GET /v1/runs/{id}/trajectories/updates/{update}/groups/{group}/members/{member}/tokens";
  const input = { params: { id, update, group, member: String(member.member) } };
  const { items: tokens, is_done, error, more } = usePages(route, input, {
    itemsOf: (answer) => answer.tokens,
    least: member.tokens,
  });
  const { query } = place.value, layer = layerOf(query.get("layer"));
  const wanted = firstShown(query.get("token"), member.turns), [active, setActive] = useState(wanted);
  const shown = useSignal(active), scale = useMemo(() => LAYERS[layer].scaleFor(tokens), [layer, tokens]);
  const choose = (token: number) => {
    setActive(token);
    shown.value = token;
  };
  useEffect(() => {
    if (active === wanted) return;
    const timer = setTimeout(() => {
      const { segments, query } = place.value;
      replacePlace(segments, { ...Object.fromEntries(query), token: active });
    }, SETTLE_MS);
    return () => clearTimeout(timer);
  }, [active]);
  return (
    <section class="token-view" aria-label={`tokens of attempt ${member.member}`}>
      <div class="token-bar">
        <LayerChoice layer={layer} />
        <TurnChoice turns={member.turns} onChoose={choose} />
      </div>
      <Legend scale={scale} />
      <Readout tokens={tokens} shown={shown} />
      <Lines tokens={tokens} scale={scale} active={active} shown={shown} onChoose={choose} />
      <p class="token-foot" role="status">
        {is_done
          ? `${tokens.length.toLocaleString("en")} tokens`
          : `${tokens.length.toLocaleString("en")} of ${
            member.tokens.toLocaleString("en")
          } tokens are loaded …`}
      </p>
      {error !== null && <ProblemBox error={error} onRetry={() => more(member.tokens)} />}
    </section>
  );
}
