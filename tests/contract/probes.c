/* Calls by which programs find out whether a feature exists: each returns the value by which programs continue, and is
 * not logged as a refusal.
 *
 * Sources: ibv_get_device_name(3), ibv_get_device_index(3), ibv_query_ece(3), ibv_alloc_parent_domain(3); rdma-core's
 * tests, which skip calls that return EOPNOTSUPP. */

#include <errno.h>

#include "contract.h"

/* rdma-core returns the structure's public field for any structure: programs have copies and test doubles. */
static void a_device_that_the_program_made_has_its_name(void)
{
	struct ibv_device made = { .node_type = IBV_NODE_CA, .name = "of_the_program" };
	CHECK(ibv_get_device_name(&made) == made.name);
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK_POINTER(list);
	struct ibv_device copy = *list[0];
	CHECK_EQUAL(strcmp(ibv_get_device_name(&copy), ibv_get_device_name(list[0])), 0);
	CHECK(ibv_get_device_name(NULL) == NULL);
	/* It cannot be opened all the same. */
	CHECK(ibv_open_device(&made) == NULL);
	CHECK_EQUAL(errno, EINVAL);
	ibv_free_device_list(list);
}

static void a_parent_domain_with_an_unknown_attribute_is_not_supported(void)
{
	struct ibv_context *context = device_open();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	CHECK_POINTER(pd);
	struct ibv_parent_domain_init_attr attributes = { .pd = pd };
	/* ALLOCATORS, PD_CONTEXT and ALLOW_CC_UNPROTECTED_ALLOC are known. */
	for (int bit = 3; bit < 32; bit++) {
		attributes.comp_mask = UINT32_C(1) << bit;
		errno = 0;
		CHECK(ibv_alloc_parent_domain(context, &attributes) == NULL);
		CHECK_EQUAL(errno, EOPNOTSUPP);
	}
	attributes.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attributes);
	CHECK_POINTER(parent);
	CHECK_CALL(ibv_dealloc_pd(parent));
	CHECK_CALL(ibv_dealloc_pd(pd));
	CHECK_CALL(ibv_close_device(context));
}

/* Calls that librdmacm makes for each device and each connection. */
static void questions_have_no_line(void)
{
	CHECK_CALL(setenv("VERBENA_LOG", "info", 1));
	int diverted = memfd_create("stderr", 0), terminal = dup(STDERR_FILENO);
	CHECK_EQUAL(dup2(diverted, STDERR_FILENO), STDERR_FILENO);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_ece ece = { .vendor_id = 7 };
	int index = ibv_get_device_index(endpoint.context->device), index_error = errno;
	int ece_error = ibv_query_ece(endpoint.qp, &ece), vendor = (int)ece.vendor_id;
	int none_error = ibv_set_ece(endpoint.qp, &ece);
	off_t quiet = lseek(diverted, 0, SEEK_END);
	/* A refusal has one: lines are on. */
	ece.vendor_id = 7;
	int refused = ibv_set_ece(endpoint.qp, &ece);
	off_t told = lseek(diverted, 0, SEEK_END);
	CHECK_EQUAL(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
	CHECK_EQUAL(index, -1);
	CHECK_EQUAL(index_error, EOPNOTSUPP);
	CHECK_EQUAL(ece_error, EOPNOTSUPP);
	CHECK_EQUAL(vendor, 0);
	CHECK_EQUAL(none_error, EOPNOTSUPP);
	CHECK_EQUAL(quiet, 0);
	CHECK_EQUAL(refused, EOPNOTSUPP);
	CHECK(told > 0);
}

const struct test tests[] = {
	{ "a_device_that_the_program_made_has_its_name", a_device_that_the_program_made_has_its_name },
	{ "a_parent_domain_with_an_unknown_attribute_is_not_supported",
	  a_parent_domain_with_an_unknown_attribute_is_not_supported },
	{ "questions_have_no_line", questions_have_no_line },
	{ 0 },
};
