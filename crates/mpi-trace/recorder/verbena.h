/* Functions with which a recorded program reports its computing. The recorder defines them; a
 * program that also runs without it looks them up, by weak references as here or by dlsym. They
 * take effect from MPI_Init to MPI_Finalize; elsewhere and within a call they have none. */

#ifndef VERBENA_H
#define VERBENA_H

#include <stdint.h>

#pragma weak verbena_computed
#pragma weak verbena_pause
#pragma weak verbena_resume

/* Reports that the calling thread has computed so many nanoseconds before its next call, in
 * addition to its processor time. Has no effect in threads that make no calls, whose processor
 * time does not count either. */
void verbena_computed(uint64_t nanoseconds);

/* From verbena_pause on, the calling thread's processor time does not count, until
 * verbena_resume has been called as often as verbena_pause. */
void verbena_pause(void);
void verbena_resume(void);

#endif
