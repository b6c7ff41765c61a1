/* contract NAME: checks the linked library against one of the man pages' contracts, through the
   official headers, in one process. The table is at the end. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contract/refusals.h"
#include "contract/events.h"
#include "contract/extended.h"
#include "contract/objects.h"

int main(int argc, char **argv)
{
#define TEST(name) { #name, name }
	static const struct { const char *name; void (*run)(void); } tests[] = {
		TEST(objects_in_use_cannot_be_destroyed),
		TEST(null_and_nonsense_are_refused),
		TEST(what_is_not_supported_says_so),
		TEST(a_list_stops_at_the_request_that_is_refused),
		TEST(events_wait_to_be_acknowledged),
		TEST(asynchronous_events_name_their_object),
		TEST(an_event_that_nobody_took_goes_with_its_object),
		TEST(a_moderated_queue_raises_its_event_all_the_same),
		TEST(a_batch_is_posted_whole_or_not_at_all),
		TEST(only_queue_pairs_made_for_it_have_the_extended_interface),
		TEST(an_atomic_write_takes_its_value_at_once),
		TEST(the_extended_queue_iterates_over_completions),
		TEST(queries_fill_as_much_as_the_header_knows),
		TEST(what_is_imported_is_the_same_object),
		TEST(a_region_keeps_its_key_when_it_is_registered_again),
		TEST(a_window_moves_only_to_keys_of_its_own),
		TEST(domains_of_every_kind),
		TEST(the_receiving_side_of_xrc_can_be_opened_again),
		TEST(device_memory_is_in_words),
		TEST(advice_is_taken_about_on_demand_memory_only),
	};

	alarm(60);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (argc == 2 && !strcmp(argv[1], tests[i].name)) {
			open_device();
			tests[i].run();
			return wrong != 0;
		}
	printf("no such test\n");
	return 1;
}
