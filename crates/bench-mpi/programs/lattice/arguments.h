/* The program's arguments, as words NAME=VALUE. */
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

/* Returns NULL, or an error message in static memory. */
const char *arguments_read(struct arguments *arguments, int count, char **words);
/* Whether all arguments have their default values. */
int arguments_are_default(const struct arguments *arguments);

#endif
