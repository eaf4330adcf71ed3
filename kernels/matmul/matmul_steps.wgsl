// Each of the 16 steps reads THREAD_ROWS + THREAD_COLUMNS numbers for their product.
#for k 16
#for i THREAD_ROWS4
let x{k}_{i} = tile_x[{k}][row4 + {i}u];
#end
#for j THREAD_COLUMNS4
let w{k}_{j} = tile_w[{k}][column4 + {j*ACROSS}u];
#end
#for i THREAD_ROWS
#for j THREAD_COLUMNS4
sum{i}_{j} = fma(vec4<f32>(x{k}_{i/4}[{i%4}]), w{k}_{j}, sum{i}_{j});
#end
#end
#end
