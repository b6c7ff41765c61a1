/* What the program is asked for, as words NAME=VALUE. */
#ifndef LATTICE_ARGUMENTS_H
#define LATTICE_ARGUMENTS_H

#include "gauge.h"
#include "solver.h"

struct arguments {
    int extent[DIMENSIONS];
    int parts[DIMENSIONS]; /* of z and t, or 0 */
    double kappa;
    struct drawing drawing;
    struct goal goal;
};

/* NULL, or what is wrong, in a text that stays. */
const char *arguments_read(struct arguments *arguments, int count, char **words);
/* Whether all is as if nothing had been asked for. */
int arguments_are_default(const struct arguments *arguments);

#endif
