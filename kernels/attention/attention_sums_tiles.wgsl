// Inserted into the kernels for GPUs: adds a block's 32 vectors to o, by the weights w of the 4 rows of a thread, in order.
// A thread has every KG-th vector of o. Of the 32 only the first 4 · `quads` can have a weight. The weights meet in workgroup memory, where all threads of a row read them; `sum`
// is their sum.
    #for acc ACCS
    #for v V_STAGES
    #for half V_HALVES
    workgroupBarrier();
    if {v+half} == 0 {
      #for t KT
      {
        let j = {t*KG}u + kg;
        a_tile[j % 4u][g][j / 4u] = vec4<f32>(w{acc}_0_{t}, w{acc}_1_{t}, w{acc}_2_{t}, w{acc}_3_{t});
      }
      #end
    }
    #for n V_LOADS
    #for w V_LANES
    {
      let j = load + {n*LOADERS}u;
      let column = thread % 8u + {8*w}u;
      b_tile[j % {KT}u][column][j / {KT}u] =
        summed{acc}(right_at{half*V_LOADS+n} + min(column_from + {v*KG}u + column, {D4}u - 1u));
    }
    #end
    #end
    workgroupBarrier();
    for (var e = {half*VE}u; e < min(quads, {half*VE+VE}u); e++) {
      #for u 4
      {
        let w = a_tile[{u}][g][e];
        if {v} == 0 { sum += w; }
        let value = b_tile[{u%KT}][kg][(e - {half*VE}u) * {4/KT}u + {u/KT}u];
        #for i 4
        o{acc}_{i}_{v} = fma(vec4<f32>(w[{i}]), value, o{acc}_{i}_{v});
        #end
      }
      #end
    }
    #end
    #end
    #end
