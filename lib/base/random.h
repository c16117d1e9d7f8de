/* Reproducible random streams on the host, one struct per stream. */
#ifndef TFM_LIB_RANDOM_H
#define TFM_LIB_RANDOM_H

#include <stdint.h>

/* xoshiro256** ("Scrambled Linear Pseudorandom Number Generators", Blackman and Vigna 2021). */
typedef struct tfm__random {
    uint64_t state[4];
} tfm__random;

/* The stream of a seed and a number, independent of the other streams. */
tfm__random tfm__random_new(uint64_t seed, uint64_t stream);
uint64_t tfm__random_next(tfm__random *random);
/* Uniform in [0, 1), 53 bits. */
double tfm__random_uniform(tfm__random *random);
/* Normal with mean 0 and deviation 1 (Box and Muller 1958). */
double tfm__random_normal(tfm__random *random);
/* Uniform in 0 .. below - 1, every value equally likely; below > 0. */
uint64_t tfm__random_below(tfm__random *random, uint64_t below);

#endif
