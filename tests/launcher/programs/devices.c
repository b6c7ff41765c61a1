/* devices            lists devices by the library that it is linked against
 * devices dlopen X   by the library that dlopen(X) gives, with names taken at their version nodes
 * devices plugin X   by a plug-in at X, which has a dependency beside it */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#undef ibv_get_device_list

static int list(struct ibv_device **(*get)(int *), const char *(*name)(struct ibv_device *),
		void (*release)(struct ibv_device **))
{
	int number = -1;
	struct ibv_device **devices = get(&number);

	for (int i = 0; i < number; i++)
		printf("device %s\n", name(devices[i]));
	release(devices);
	printf("devices: %d\n", number);
	return number < 1;
}

static void *taken(void *library, const char *name)
{
	void *function = library ? dlvsym(library, name, "IBVERBS_1.1") : NULL;

	if (!function)
		printf("%s: %s\n", name, dlerror());
	return function;
}

int main(int argc, char **argv)
{
	if (argc == 1)
		return list(ibv_get_device_list, ibv_get_device_name, ibv_free_device_list);
	void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		printf("%s\n", dlerror());
	if (strcmp(argv[1], "dlopen") == 0) {
		void *get = taken(library, "ibv_get_device_list"), *name = taken(library, "ibv_get_device_name");
		void *release = taken(library, "ibv_free_device_list");

		return get && name && release ? list(get, name, release) : 1;
	}
	int (*run)(void) = library ? dlsym(library, "run") : NULL;
	return run ? run() : 1;
}
