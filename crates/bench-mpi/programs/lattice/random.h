/* Random numbers that depend only on a seed, a purpose and a place, so that a lattice is the
 * same for every distribution. */
#ifndef LATTICE_RANDOM_H
#define LATTICE_RANDOM_H

#include <stdint.h>

/* The purpose of the numbers. */
enum subject { LINKS, TRANSFORMATION, SOURCE, FIRST_FIELD, SECOND_FIELD };

struct random {
    uint64_t state;
};

/* Returns the generator of a purpose at a place. */
struct random random_of(uint64_t seed, enum subject subject, uint64_t place);
/* The next number, from -1 to 1. */
double random_next(struct random *random);

#endif
