/* Pseudo-random numbers x' = a x mod 2^46 with a = 5^13, as fractions of 2^46 (RNR-94-007,
 * section 2.3). 64-bit integers are exact: the part of a product lost above 2^64 is a multiple
 * of 2^46. */
#include "common.h"

static const uint64_t FACTOR = 1220703125;
static const uint64_t MASK = ((uint64_t)1 << 46) - 1;

double random_next(uint64_t *state) {
    *state = *state * FACTOR & MASK;
    return (double)*state * 0x1p-46;
}

uint64_t random_skip(uint64_t state, uint64_t numbers) {
    for (uint64_t power = FACTOR; numbers != 0; numbers >>= 1, power = power * power & MASK)
        if (numbers & 1)
            state = state * power & MASK;
    return state;
}
