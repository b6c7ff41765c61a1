/* rdma-core's own libibverbs, loaded beside the adapter's into a separate name space: the reference for calls whose
 * result does not depend on a device. */
#ifndef VERBENA_TESTS_RDMA_CORE_H
#define VERBENA_TESTS_RDMA_CORE_H

#include <dlfcn.h>
#include <stdlib.h>

#include "check.h"

/* The paths at which distributions install it. */
static const char *const rdma_core_places[] = {
	"/usr/lib/x86_64-linux-gnu/libibverbs.so.1",
	"/usr/lib/aarch64-linux-gnu/libibverbs.so.1",
	"/usr/lib64/libibverbs.so.1",
	"/usr/lib/libibverbs.so.1",
};

/* Returns one of its calls; skips the test where the library is not installed. */
static inline void *rdma_core_call(const char *name)
{
#ifndef __GLIBC__
	check_skip("only glibc loads a second library of one name (%s)", name);
#else
	static void *library;
	for (size_t i = 0; !library && i < sizeof rdma_core_places / sizeof *rdma_core_places; i++)
		library = dlmopen(LM_ID_NEWLM, rdma_core_places[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		check_skip("rdma-core's libibverbs is not installed: %s", dlerror());
	void *call = dlsym(library, name);
	if (!call)
		check_failed(__FILE__, __LINE__, "rdma-core's libibverbs has no %s", name);
	return call;
#endif
}

/* Returns a call that this machine's headers are too old for, at its version node; where the C library supports no
 * versions, at any. */
static inline void *newer_call(const char *name, const char *node)
{
#ifdef __GLIBC__
	return dlvsym(RTLD_DEFAULT, name, node);
#else
	(void)node;
	return dlsym(RTLD_DEFAULT, name);
#endif
}

#endif
