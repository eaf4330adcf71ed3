/** Runs a test with a temporary folder, by its real path, and removes it with its contents. */
export async function withFolder<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  try {
    return await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
