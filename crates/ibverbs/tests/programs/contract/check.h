/* Counted checks, and the device under test. */
#pragma once

static int wrong;

#define CHECK(what) do { if (!(what)) { wrong++; \
	printf("%s:%d: not so: %s (errno %d)\n", __func__, __LINE__, #what, errno); } } while (0)
/* A precondition of everything that follows. */
#define NEED(what) do { if (!(what)) { \
	printf("%s:%d: needed: %s (errno %d)\n", __func__, __LINE__, #what, errno); exit(1); } } while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;

static void open_device(void)
{
	int number = 0;
	struct ibv_device **list = ibv_get_device_list(&number);

	NEED(list && number == 1 && list[0] && !list[1]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	NEED(context);
	pd = ibv_alloc_pd(context);
	NEED(pd);
}
