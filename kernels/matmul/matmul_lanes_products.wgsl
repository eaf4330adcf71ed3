// The products of a step of four for software adapters, in matmul_lanes_nt.wgsl: of the rows x0, x1, … with the columns that
// the lanes have loaded as w0, w1, …. A template for unroll.ts.

#for j COLUMNS
let c{j} = broadcast_vec4f_{j%LANES}(w{j/LANES});
#for i ROWS
sum{n}_{i}_{j} = add_products(x{i}, c{j}, sum{n}_{i}_{j});
#end
#end
