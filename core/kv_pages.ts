/** The pages of the key/value cache, as kernels, the sampler and those who size the cache see them. */

/** The number of tokens in a page. */
export const PAGE_TOKENS = 32;
