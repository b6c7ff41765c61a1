/* What the adapter benches share: two pinned processes, batches, medians, and one way of printing.
 *
 * A bench prints lines "name value", nanoseconds, bytes or numbers a second as the name says. All
 * comparison and all targets are in `benches/run`. */
#ifndef VERBENA_BENCHES_MEASURE_H
#define VERBENA_BENCHES_MEASURE_H

#include <stdint.h>

/* Batches of which the median is taken: what the scheduler of a shared machine does to some of
 * them does not matter then. */
#define BATCHES 41

/* Pins this process to the first or the second of the processors that it may use. With only one,
 * both share it, and the result says so. */
void pin(unsigned which);

/* Nanoseconds for which the calling thread had a processor. */
uint64_t processor_time(void);

/* The median of some values, which are sorted by this. */
double median(double *values, unsigned count);

void print_result(const char *name, double value);

#endif
