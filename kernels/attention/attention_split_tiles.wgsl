// Inserted into the forward kernels for GPUs: at the end of SPLIT keys, adds their sums to those before.
    if (base + BLOCK) % {SPLIT}u == 0u || base + BLOCK >= end {
      let is_first = base < start / {SPLIT}u * {SPLIT}u + {SPLIT}u;
      let is_last = base + BLOCK >= end;
      let before = totals[g];
      workgroupBarrier();
      let top = max(before[0], m);
      let was = exp(before[0] - top);
      let now = exp(m - top);
      let all = fma(sum, now, before[1] * was);
      if kg == 0u { totals[g] = array<vec4<f32>, 2>(top, all); }
      m = vec4<f32>(NO_TOP);
      sum = vec4<f32>();
      #for i 4
      if is_stored(own_rows, {i}u) {
        let x = own + {i}u * left_step;
        if is_last && kg == 0u { store_lse(x / {D4}u, top[{i}] + log(all[{i}])); }
        #for n V_STAGES
        if {n*KG}u + select(kg, 0u, {D4%KG} == 0) < {D4}u {
          if !is_first { o0_{i}_{n} = fma(o0_{i}_{n}, vec4<f32>(now[{i}]), o[x + {n*KG}u] * was[{i}]); }
          if is_last { o0_{i}_{n} *= 1.0 / all[{i}]; }
          o[x + {n*KG}u] = o0_{i}_{n};
          o0_{i}_{n} = vec4<f32>();
        }
        #end
      }
      #end
    }
