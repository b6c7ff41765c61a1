/* take LIBRARY: opens it as programs do, then looks up each "NAME NODE" of standard input by dlvsym,
   and checks that it is in that library. Prints the number of names. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	char name[128], node[64];
	int taken = 0, missing = 0;
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	while (scanf("%127s %63s", name, node) == 2) {
		void *symbol = dlvsym(library, name, node);
		Dl_info info;

		if (!symbol || !dladdr(symbol, &info) || strcmp(info.dli_fname, argv[1])) {
			printf("missing: %s at %s\n", name, node);
			missing++;
		} else {
			taken++;
		}
		if (dlvsym(library, name, "IBVERBS_0.9")) {
			printf("found at a node that does not exist: %s\n", name);
			missing++;
		}
	}
	printf("taken: %d\n", taken);
	return missing != 0;
}
