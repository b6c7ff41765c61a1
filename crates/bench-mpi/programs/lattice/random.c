/* SplitMix64 (Steele, Lea and Flood, 2014), seeded separately for each place. */
#include "random.h"

static uint64_t mixed(uint64_t word) {
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

static const uint64_t STEP = UINT64_C(0x9e3779b97f4a7c15);

struct random random_of(uint64_t seed, enum subject subject, uint64_t place) {
    uint64_t begun = mixed(seed + STEP) + (uint64_t)subject * STEP;
    return (struct random){mixed(mixed(begun) + place * STEP)};
}

double random_next(struct random *random) {
    random->state += STEP;
    return (double)(mixed(random->state) >> 11) * 0x1p-52 - 1;
}
