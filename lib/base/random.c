#include "base/random.h"
#include <math.h>

/* SplitMix64 turns any seed into a good state (Steele, Lea and Flood 2014). */
static uint64_t split_mix(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

tfm__random tfm__random_new(uint64_t seed, uint64_t stream) {
    tfm__random random;
    uint64_t state = stream;
    state = split_mix(&state) ^ seed;
    for (int i = 0; i < 4; i++)
        random.state[i] = split_mix(&state);
    return random;
}

static uint64_t rotate_left(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

uint64_t tfm__random_next(tfm__random *random) {
    uint64_t *s = random->state;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double tfm__random_uniform(tfm__random *random) {
    return (double)(tfm__random_next(random) >> 11) * 0x1p-53;
}

double tfm__random_normal(tfm__random *random) {
    const double radius = sqrt(-2 * log(1 - tfm__random_uniform(random)));
    return radius * cos(2 * 3.14159265358979323846 * tfm__random_uniform(random));
}

uint64_t tfm__random_below(tfm__random *random, uint64_t below) {
    const uint64_t skewed = (UINT64_MAX - below + 1) % below; /* 2^64 mod below: smaller values would be too frequent */
    uint64_t x = tfm__random_next(random);
    while (x < skewed)
        x = tfm__random_next(random);
    return x % below;
}
