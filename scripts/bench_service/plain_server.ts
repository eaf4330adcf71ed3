/**
 * A server that does nothing but answer: what the same requests cost on this machine without the program. Started as a
 * process of its own; it prints its URL.
 */

if (import.meta.main) {
  const onListen = ({ port }: Deno.NetAddr) => console.log(`http://127.0.0.1:${port}`);
  Deno.serve({ hostname: "127.0.0.1", port: 0, onListen }, () => Response.json({ runs: [] }));
}
