// Inserted into the kernels for GPUs: the products of a workgroup's 4 · G vectors on the left with a block of 32 on the
// right, for each pass. A thread has the products of 4 vectors, 4 · g to 4 · g + 3, with every KG-th of the right. A part of
// the dimensions at a time is staged; 8 neighbouring threads read neighbouring numbers. The dimensions are added in order.
    #for pass PASSES
    #for i 4
    #for t KT
    var s{pass}_{i}_{t} = 0.0;
    #end
    #end
    for (var chunk = 0u; chunk < {D4}u; chunk += {CW}u) {
      workgroupBarrier();
      #for n Q_LOADS
      a_tile[load % 4u][load / 4u + {n*LOADERS/4}u][lane] =
        left{pass}(left_at + {n*LOADERS%ROWS}u * left_step + {n*LOADERS/ROWS*D4}u + chunk + lane);
      #end
      #for n K_LOADS
      b_tile[(load + {n*LOADERS}u) / {KG}u][(load + {n*LOADERS}u) % {KG}u][lane] = right{pass}(right_at{n} + chunk + lane);
      #end
      workgroupBarrier();
      #for d CW
      {
        #for i 4
        let left{i} = a_tile[{i}][g][{d}];
        #end
        #for t KT
        {
          let right = b_tile[{t}][kg][{d}];
          #for x 4
          #for i 4
          s{pass}_{i}_{t} = fma(left{i}[{x}], right[{x}], s{pass}_{i}_{t});
          #end
          #end
        }
        #end
      }
      #end
    }
    #end
