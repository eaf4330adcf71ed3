/** Records what files and folders hold when they are flushed: that survives a power cut. */

/** What was flushed last at each path: a file's text, or the names in a folder in order. */
export type Flushes = ReadonlyMap<string, string | string[]>;

/** Runs work, and records its flushes by the paths under which the files were opened. */
export async function recordFlushes(work: () => Promise<void>): Promise<Flushes> {
  const flushes = new Map<string, string | string[]>(), paths = new WeakMap<Deno.FsFile, string>();
  const { open } = Deno, { sync, syncData } = Deno.FsFile.prototype;
  const recording = (flush: () => Promise<void>) =>
    async function (this: Deno.FsFile): Promise<void> {
      const path = paths.get(this);
      if (path !== undefined) flushes.set(path, await contentOf(path));
      await flush.call(this);
    };
  Deno.open = async (path, options) => {
    const file = await open(path, options);
    paths.set(file, String(path));
    return file;
  };
  Object.assign(Deno.FsFile.prototype, { sync: recording(sync), syncData: recording(syncData) });
  try {
    await work();
  } finally {
    Deno.open = open;
    Object.assign(Deno.FsFile.prototype, { sync, syncData });
  }
  return flushes;
}

async function contentOf(path: string): Promise<string | string[]> {
  if ((await Deno.stat(path)).isFile) return await Deno.readTextFile(path);
  return (await Array.fromAsync(Deno.readDir(path))).map(({ name }) => name).sort();
}
