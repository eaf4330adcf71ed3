// The products of a step of four for software adapters, in matmul_lanes_nt.wgsl: of the rows x0, x1, … with the columns that
// the lanes have loaded as w0, w1, …. A template for unroll.ts.

#for j COLUMNS
let c{j} = broadcast_vec4f_{j%LANES}(w{j/LANES});
#for i ROWS
#for a 4
sum{n}_{i}_{j} = fma(x{i}[{a}], c{j}[{a}], sum{n}_{i}_{j});
#end
#end
#end
