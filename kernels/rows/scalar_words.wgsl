// Rows of any width: copy one word at a time, where vector_words.wgsl copies four.

alias word = u32;
