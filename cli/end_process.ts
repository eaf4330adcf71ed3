/** How a process that used the device ends. */

/** Where C's `_exit` is found. Windows ends the other threads itself before it runs anything of a library. */
const LIBRARIES: Partial<Record<typeof Deno.build.os, string>> = {
  linux: "libc.so.6",
  darwin: "/usr/lib/libSystem.B.dylib",
};

/**
 * Ends the process at once with an exit code, and runs nothing of any library on the way.
 *
 * `Deno.exit` is C's `exit`: it calls the exit handlers of every library, those of the graphics driver among them, on
 * the calling thread, while the device's thread still compiles, computes or unloads that driver. That ends in a
 * segmentation fault now and then (docs/experiments/exits.md). Nothing of ours waits for those handlers: files are
 * written through, and standard output is not buffered. Without the permission `ffi` it is `Deno.exit`.
 */
export function endProcess(code: number): never {
  const library = LIBRARIES[Deno.build.os];
  if (library !== undefined && Deno.permissions.querySync({ name: "ffi" }).state === "granted") {
    try {
      const { symbols } = Deno.dlopen(library, { _exit: { parameters: ["i32"], result: "void" } });
      symbols._exit(code);
    } catch {
      // A system whose C library has another name.
    }
  }
  Deno.exit(code);
}
