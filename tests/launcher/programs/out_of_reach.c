/* out_of_reach deepbind|dlmopen|plain X   opens X so, and has it list devices if it has `run` */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	(void)argc;
	void *library = strcmp(argv[1], "dlmopen") == 0
		? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW)
		: dlopen(argv[2], RTLD_NOW | (strcmp(argv[1], "deepbind") == 0 ? RTLD_DEEPBIND : 0));

	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	int (*run)(void) = dlsym(library, "run");
	if (run)
		run();
	return 0;
}
