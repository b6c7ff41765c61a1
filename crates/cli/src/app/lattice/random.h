/* Random numbers that follow from a seed and what they are for, and from nothing else: so a lattice is the same however it is dealt out. */
#ifndef LATTICE_RANDOM_H
#define LATTICE_RANDOM_H

#include <stdint.h>

/* What numbers are for. */
enum subject { LINKS, TRANSFORMATION, SOURCE, FIRST_FIELD, SECOND_FIELD };

struct random {
    uint64_t state;
};

/* The numbers of a subject at a place. */
struct random random_of(uint64_t seed, enum subject subject, uint64_t place);
/* The next one, from -1 to 1. */
double random_next(struct random *random);

#endif
