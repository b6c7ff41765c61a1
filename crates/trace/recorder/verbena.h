/* What a program that is recorded may say of its computing. The recorder has these functions: a program that also runs without it looks them
 * up, by weak references as here or by dlsym. What they say counts from MPI_Init to MPI_Finalize, and is lost elsewhere and within a call. */

#ifndef VERBENA_H
#define VERBENA_H

#include <stdint.h>

#pragma weak verbena_computed
#pragma weak verbena_pause
#pragma weak verbena_resume

/* The calling thread has computed so many nanoseconds more before its next call than its processor time says. Threads that make no call
 * tell in vain, as their processor time is not counted either. */
void verbena_computed(uint64_t nanoseconds);

/* The calling thread's processor time is not counted until it has called verbena_resume as often as verbena_pause. */
void verbena_pause(void);
void verbena_resume(void);

#endif
