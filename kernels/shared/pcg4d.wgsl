// pcg4d: four words in, four mixed words out. On the host it is `pcg4d` of core/random.ts.
// Source: Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 9(3), 2020.

fn pcg4d(words: vec4<u32>) -> vec4<u32> {
  var v = words * 1664525u + 1013904223u;
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  v ^= v >> vec4<u32>(16u);
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  return v;
}
