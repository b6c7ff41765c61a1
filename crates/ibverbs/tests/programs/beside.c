/* beside LIBRARY PROVIDER: loads a hardware provider beside Verbena's library, as in a program linked
   against both, and checks that it uses this library and does not claim its device. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static const char *path_of(void *library)
{
	struct link_map *map = NULL;

	return dlinfo(library, RTLD_DI_LINKMAP, &map) || !map ? "?" : map->l_name;
}

int main(int argc, char **argv)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
	void *provider;
	void **(*list)(int *);
	void (*free_list)(void **);
	int number = 0;

	if (argc != 3 || !library || strcmp(path_of(library), argv[1])) {
		printf("libibverbs.so.1 is %s\n", library ? path_of(library) : dlerror());
		return 1;
	}
	provider = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
	if (!provider) {
		const char *why = dlerror();

		printf("%s\n", why);
		/* A provider that is not installed is no failure. */
		return strstr(why, "cannot open shared object file") ? 77 : 1;
	}
	*(void **)&list = dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1");
	*(void **)&free_list = dlvsym(library, "ibv_free_device_list", "IBVERBS_1.1");
	void **devices = list(&number);
	static const char *const questions[] = {
		"mlx5dv_is_supported", "mlx4dv_is_supported", "efadv_query_device",
	};
	for (unsigned i = 0; i < 2; i++) {
		_Bool (*is_supported)(void *);

		*(void **)&is_supported = dlsym(provider, questions[i]);
		if (is_supported && is_supported(devices[0])) {
			printf("%s takes our device for its own\n", questions[i]);
			return 1;
		}
	}
	free_list(devices);
	printf("%s loads, %d device\n", argv[2], number);
	return number != 1;
}
