// Rows whose width is a multiple of 4: copy four words at a time.

alias word = vec4<u32>;
