// Inserted into the forward kernels for GPUs: the weights w of a block's scores s, relative to the largest score m so far.
// The order of all sums depends on a row's own keys alone, so all of these kernels give a row equal bits.
    #for t KT
    {
      let j = base + {t*KG}u + kg;
      #for i 4
      s0_{i}_{t} = soft_cap(s0_{i}_{t} * params.scale);
      #end
      if is_masked {
        #for i 4
        s0_{i}_{t} = select(LOWEST, s0_{i}_{t}, is_seen(own_rows, {i}u, j));
        #end
      }
    }
    #end
    {
      var top = vec4<f32>(s0_0_0, s0_1_0, s0_2_0, s0_3_0);
      #for t KT
      top = max(top, vec4<f32>(s0_0_{t}, s0_1_{t}, s0_2_{t}, s0_3_{t}));
      #end
      tops[g][kg] = top;
    }
    workgroupBarrier();
    let before = m;
    #for x KG
    m = max(m, tops[g][{x}]);
    #end
    #for i 4
    #for t KT
    let w0_{i}_{t} = exp(s0_{i}_{t} - m[{i}]);
    #end
    #end
    let keep = exp(before - m);
    sum *= keep;
    #for n V_STAGES
    #for i 4
    o0_{i}_{n} *= keep[{i}];
    #end
    #end
