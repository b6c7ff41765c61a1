/* A plug-in that loads another beside it, by its own search path ($ORIGIN), and lists devices. */
#include <dlfcn.h>
#include <stdio.h>

struct ibv_device;
struct ibv_device **ibv_get_device_list(int *number);
const char *ibv_get_device_name(struct ibv_device *device);

int run(void)
{
	int number = 0;
	void *beside = dlopen("libbeside-of-plugin.so", RTLD_NOW);

	if (!beside) {
		printf("%s\n", dlerror());
		return 1;
	}
	struct ibv_device **devices = ibv_get_device_list(&number);
	if (number > 0)
		printf("device %s\n", ibv_get_device_name(devices[0]));
	return number < 1;
}
