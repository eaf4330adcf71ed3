/** A memory with what would lie in it, against its limit. */

import { bytesText } from "../../parts/format.ts";

export interface Post {
  post: string;
  bytes: number;
}

/** Posts of the machine's memory begin so; others lie on the device. */
export const HOST_PREFIX = "host_";

/** Posts with a colour of their own; smaller ones share one. */
const COLOURS = 6;

/** The width of the bar's drawing. */
const WIDTH = 1000;

const colourOf = (i: number) => `post-${i < COLOURS ? i + 1 : COLOURS + 1}`;

/** A part of a bar, as a share of its width. */
interface Part {
  x: number;
  width: number;
}

/** Parts beside each other, in a width that stands for `whole` bytes. */
export function partsOf(posts: readonly Post[], whole: number): Part[] {
  let x = 0;
  return posts.map(({ bytes }) => {
    const part = { x, width: bytes / whole };
    x += part.width;
    return part;
  });
}

interface MemoryBarProps {
  title: string;
  /** The largest first. */
  posts: readonly Post[];
  /** The name of those that are not listed. */
  others?: string;
  /** Of all posts, also those that are not listed. */
  total: number;
  /** Null when it is not known. */
  budget: number | null;
}

export function MemoryBar({ title, posts, others = "others", total, budget }: MemoryBarProps) {
  const whole = Math.max(total, budget ?? 0, 1), is_over = budget !== null && total > budget;
  const limit = budget === null ? "limit unknown" : `of ${bytesText(budget)}`;
  const unlisted = total - posts.reduce((sum, { bytes }) => sum + bytes, 0);
  const listed = unlisted > 0 ? [...posts, { post: others, bytes: unlisted }] : posts;
  return (
    <figure class={is_over ? "memory is-over" : "memory"}>
      <figcaption>
        <span>{title}</span>
        <span class="number">
          <strong>{bytesText(total)}</strong> {limit}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} 10`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${bytesText(total)} ${limit}`}
      >
        <rect class="empty-memory" width={WIDTH} height="10" />
        {partsOf(listed, whole).map(({ x, width }, i) => (
          <rect key={listed[i]!.post} class={colourOf(i)} x={x * WIDTH} width={width * WIDTH} height="10">
            <title>{listed[i]!.post}: {bytesText(listed[i]!.bytes)}</title>
          </rect>
        ))}
        {is_over && <path class="limit" d={`M${budget / whole * WIDTH} 0v10`} />}
      </svg>
      <ol class="posts">
        {listed.map(({ post, bytes }, i) => (
          <li key={post}>
            <span class={`post-mark ${colourOf(i)}`} aria-hidden="true" />
            <span>{post.replace(HOST_PREFIX, "").replaceAll("_", " ")}</span>
            <span class="number">{bytesText(bytes)}</span>
          </li>
        ))}
      </ol>
    </figure>
  );
}
