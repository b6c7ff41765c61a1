/* Another libibverbs, which knows no device, as in a wheel or in the system. */
#include <stdlib.h>

struct ibv_device;

struct ibv_device **ibv_get_device_list(int *number)
{
	*number = 0;
	return calloc(1, sizeof(struct ibv_device *));
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device ? "foreign" : NULL;
}
