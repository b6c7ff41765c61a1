/* The data that a process under attack gives its attacker: more than a stranger would ever know. */
#ifndef VERBENA_TESTS_VICTIMS_H
#define VERBENA_TESTS_VICTIMS_H

#include <stdint.h>

enum { VICTIMS = 8 };

struct victim {
	uint32_t number;
	uint32_t service; /* the top three bits of its opcodes */
};

struct victims {
	struct victim each[VICTIMS];
	uint32_t honest;  /* a queue pair that is connected to another peer */
	uint32_t srq;
	uint32_t psn;     /* of all victims, in both directions, at each new connection */
	uint32_t queue_key;
	uint32_t rkey;
	uint64_t address; /* of the granted memory */
	uint64_t length;
};

#endif
