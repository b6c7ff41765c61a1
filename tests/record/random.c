/* A random MPI program: every rank draws the same plan from the seed, does its part of each step, checks the received
 * data, and prints a sum of it. With the recorder in front of it the sum must be the same, and the trace must have as
 * many messages as there were.
 *
 *   random SEED STEPS [across]
 *
 * With the last word there are operations between two groups, too, which a replay does not know. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGES = 24, MOST_BYTES = 100000, COMMS = 4 };

static uint64_t state, sum, sent; /* Accesses to another's memory are messages, too. */
static int rank, size, across;

static struct { MPI_Comm comm; int rank, size; } comms[COMMS];

/* The same on all ranks. */
static uint32_t draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32) % below;
}

/* A private generator, for choices that do not change the plan. */
static uint64_t private_state;
static uint32_t own(uint32_t below)
{
	private_state = private_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(private_state >> 33) % below;
}

static void wrong(const char *what, long is, long should)
{
	fprintf(stderr, "rank %d: %s is %ld and should be %ld\n", rank, what, is, should);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(const char *what, long is, long should)
{
	if (is != should)
		wrong(what, is, should);
	sum = (sum ^ (uint64_t)is) * 0x100000001b3ull;
}

static int length(void)
{
	static const int lengths[] = { 0, 1, 8, 100, 4096, 9000, 70000, MOST_BYTES };
	return lengths[draw(sizeof lengths / sizeof *lengths)];
}

static void fill(unsigned char *at, int bytes, int mark)
{
	for (int place = 0; place < bytes; place++)
		at[place] = (unsigned char)(mark + place * 7);
}

static void check(const unsigned char *at, int bytes, int mark)
{
	for (int place = 0; place < bytes; place++)
		if (at[place] != (unsigned char)(mark + place * 7))
			wrong("a byte", at[place], (unsigned char)(mark + place * 7));
	expect("a length", bytes, bytes);
}

/* Bytes as every second of a vector's; freed while it is used, where it may be. */
static MPI_Datatype spread(int bytes)
{
	MPI_Datatype type;
	MPI_Type_vector(bytes, 1, 2, MPI_UNSIGNED_CHAR, &type);
	MPI_Type_commit(&type);
	return type;
}

/* Waits for all in one of the many ways. Returns the statuses where requested. */
static void complete(int count, MPI_Request *requests, MPI_Status *statuses)
{
	int indices[2 * MOST_MESSAGES + 4], some, index, done = 0;
	MPI_Status status, several[2 * MOST_MESSAGES + 4];
	switch (own(8)) {
	case 0:
		MPI_Waitall(count, requests, statuses);
		return;
	case 1:
		while (!done)
			MPI_Testall(count, requests, &done, statuses);
		return;
	case 2:
		for (int which = count - 1; which >= 0; which--)
			MPI_Wait(&requests[which], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[which]);
		return;
	case 3:
		for (int which = 0; which < count; which++)
			for (done = 0; !done;)
				MPI_Test(&requests[which], &done, statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[which]);
		return;
	case 4:
	case 5:
		for (int left = count; left > 0;) {
			done = 1;
			if (own(2))
				MPI_Waitany(count, requests, &index, &status);
			else
				MPI_Testany(count, requests, &index, &done, &status);
			if (done && index == MPI_UNDEFINED)
				return;
			if (done && statuses != MPI_STATUSES_IGNORE)
				statuses[index] = status;
			left -= done;
		}
		return;
	default:
		for (int left = count; left > 0; left -= some) {
			if (own(2))
				MPI_Waitsome(count, requests, &some, indices, several);
			else
				MPI_Testsome(count, requests, &some, indices, several);
			if (some == MPI_UNDEFINED)
				return;
			for (int which = 0; which < some && statuses != MPI_STATUSES_IGNORE; which++)
				statuses[indices[which]] = several[which];
		}
	}
}

/* Messages at once, in both directions, by all kinds of sends. */
static void messages(void)
{
	static unsigned char out[MOST_MESSAGES][2 * MOST_BYTES], in[MOST_MESSAGES][2 * MOST_BYTES];
	MPI_Request requests[2 * MOST_MESSAGES + 4];
	MPI_Status statuses[2 * MOST_MESSAGES + 4];
	int receives[2 * MOST_MESSAGES + 4], lengths[2 * MOST_MESSAGES + 4], froms[2 * MOST_MESSAGES + 4], count = 0;
	int all = 1 + (int)draw(MOST_MESSAGES), which_comm = (int)draw(COMMS), ignored = draw(3) == 0;
	MPI_Comm comm = comms[which_comm].comm;
	struct { int from, to, bytes, any, kind, apart; } plan[MOST_MESSAGES];
	for (int which = 0; which < all; which++) {
		plan[which].from = (int)draw((uint32_t)comms[which_comm].size);
		plan[which].to = (int)draw((uint32_t)comms[which_comm].size);
		plan[which].bytes = length();
		plan[which].any = (int)draw(3);
		plan[which].kind = (int)draw(4);
		plan[which].apart = draw(4) == 0;
	}
	int here = comms[which_comm].rank;
	for (int which = 0; which < all; which++) {
		if (plan[which].to != here)
			continue;
		int bytes = plan[which].bytes;
		memset(in[which], 0, 2 * (size_t)bytes);
		int from = plan[which].any == 1 ? MPI_ANY_SOURCE : plan[which].from;
		MPI_Irecv(in[which], bytes, MPI_UNSIGNED_CHAR, from, which, comm, &requests[count]);
		receives[count] = which;
		froms[count] = plan[which].from;
		lengths[count++] = bytes;
	}
	if (own(3) == 0) {
		requests[count] = MPI_REQUEST_NULL;
		receives[count++] = -1;
	}
	if (own(3) == 0) {
		MPI_Irecv(NULL, 0, MPI_UNSIGNED_CHAR, MPI_PROC_NULL, 3, comm, &requests[count]);
		receives[count++] = -1;
	}
	/* Some of them may be sent only when they are waited for. */
	MPI_Barrier(comm);
	for (int which = 0; which < all; which++) {
		if (plan[which].from != here)
			continue;
		int bytes = plan[which].bytes;
		MPI_Datatype type = MPI_UNSIGNED_CHAR;
		int items = bytes;
		fill(out[which], bytes, which);
		if (plan[which].apart) {
			for (int place = bytes - 1; place >= 0; place--)
				out[which][2 * place] = out[which][place];
			type = spread(bytes);
			items = 1;
		}
		sent++;
		if (plan[which].kind == 0)
			MPI_Isend(out[which], items, type, plan[which].to, which, comm, &requests[count]);
		else if (plan[which].kind == 1)
			MPI_Issend(out[which], items, type, plan[which].to, which, comm, &requests[count]);
		else if (plan[which].kind == 2)
			MPI_Irsend(out[which], items, type, plan[which].to, which, comm, &requests[count]);
		else
			MPI_Ibsend(out[which], items, type, plan[which].to, which, comm, &requests[count]);
		receives[count++] = -1;
		if (type != MPI_UNSIGNED_CHAR)
			MPI_Type_free(&type);
	}
	complete(count, requests, ignored ? MPI_STATUSES_IGNORE : statuses);
	for (int which = 0; which < count; which++) {
		if (receives[which] < 0)
			continue;
		check(in[receives[which]], lengths[which], receives[which]);
		if (!ignored && receives[which] >= 0)
			expect("a source", statuses[which].MPI_SOURCE, froms[which]);
	}
	MPI_Barrier(comm);
}

/* Around a ring: with both at once, in one buffer, found before it is received. */
static void ring(void)
{
	static unsigned char out[MOST_BYTES], in[MOST_BYTES];
	int which = (int)draw(COMMS), bytes = length(), kind = (int)draw(6), found = 0, told;
	MPI_Comm comm = comms[which].comm;
	int next = (comms[which].rank + 1) % comms[which].size, last = (comms[which].rank + comms[which].size - 1) % comms[which].size;
	MPI_Status status;
	MPI_Message message;
	MPI_Request request;
	fill(out, bytes, comms[which].rank);
	sent++;
	if (kind == 0) {
		MPI_Sendrecv(out, bytes, MPI_UNSIGNED_CHAR, next, 1, in, MOST_BYTES, MPI_UNSIGNED_CHAR, last, 1, comm, MPI_STATUS_IGNORE);
	} else if (kind == 1) {
		memcpy(in, out, (size_t)bytes);
		MPI_Sendrecv_replace(in, bytes, MPI_UNSIGNED_CHAR, next, 1, last, MPI_ANY_TAG, comm, &status);
		expect("a tag", status.MPI_TAG, 1);
	} else {
		MPI_Isend(out, bytes, MPI_UNSIGNED_CHAR, next, 1, comm, &request);
		if (kind == 2) {
			MPI_Probe(MPI_ANY_SOURCE, 1, comm, &status);
			MPI_Get_count(&status, MPI_UNSIGNED_CHAR, &told);
			expect("a probed length", told, bytes);
			MPI_Recv(in, told, MPI_UNSIGNED_CHAR, status.MPI_SOURCE, 1, comm, MPI_STATUS_IGNORE);
		} else if (kind == 3) {
			while (!found)
				MPI_Iprobe(last, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE);
			MPI_Recv(in, MOST_BYTES, MPI_UNSIGNED_CHAR, last, 1, comm, &status);
		} else if (kind == 4) {
			MPI_Mprobe(last, 1, comm, &message, MPI_STATUS_IGNORE);
			MPI_Mrecv(in, MOST_BYTES, MPI_UNSIGNED_CHAR, &message, MPI_STATUS_IGNORE);
		} else {
			MPI_Request receive;
			while (!found)
				MPI_Improbe(MPI_ANY_SOURCE, 1, comm, &found, &message, &status);
			MPI_Imrecv(in, MOST_BYTES, MPI_UNSIGNED_CHAR, &message, &receive);
			MPI_Wait(&receive, MPI_STATUS_IGNORE);
		}
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	check(in, bytes, last);
	MPI_Sendrecv(out, 1, MPI_UNSIGNED_CHAR, MPI_PROC_NULL, 1, in, 1, MPI_UNSIGNED_CHAR, MPI_PROC_NULL, 1, comm, &status);
}

/* Persistent requests; one that is never waited for, one that is cancelled. */
static void persistent(void)
{
	static unsigned char out[4][MOST_BYTES], in[4][MOST_BYTES];
	int bytes = length(), rounds = 1 + (int)draw(3), pairs = 1 + (int)draw(4);
	int next = (rank + 1) % size, last = (rank + size - 1) % size;
	MPI_Request requests[9];
	for (int pair = 0; pair < pairs; pair++) {
		MPI_Recv_init(in[pair], bytes, MPI_UNSIGNED_CHAR, pair % 2 ? MPI_ANY_SOURCE : last, pair, MPI_COMM_WORLD, &requests[2 * pair]);
		if (pair % 2)
			MPI_Ssend_init(out[pair], bytes, MPI_UNSIGNED_CHAR, next, pair, MPI_COMM_WORLD, &requests[2 * pair + 1]);
		else
			MPI_Send_init(out[pair], bytes, MPI_UNSIGNED_CHAR, next, pair, MPI_COMM_WORLD, &requests[2 * pair + 1]);
	}
	MPI_Send_init(NULL, 0, MPI_UNSIGNED_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[2 * pairs]);
	for (int round = 0; round < rounds; round++) {
		for (int pair = 0; pair < pairs; pair++)
			fill(out[pair], bytes, rank + pair + round);
		if (own(2))
			MPI_Startall(2 * pairs + 1, requests);
		else
			for (int which = 2 * pairs; which >= 0; which--)
				MPI_Start(&requests[which]);
		sent += (uint64_t)pairs;
		MPI_Waitall(2 * pairs + 1, requests, MPI_STATUSES_IGNORE);
		for (int pair = 0; pair < pairs; pair++)
			check(in[pair], bytes, last + pair + round);
	}
	/* Those that have not begun end at once. */
	MPI_Waitall(2 * pairs, requests, MPI_STATUSES_IGNORE);
	for (int which = 0; which <= 2 * pairs; which++)
		MPI_Request_free(&requests[which]);

	int cancelled;
	MPI_Status status;
	MPI_Request never, forgotten;
	MPI_Irecv(in[0], 1, MPI_UNSIGNED_CHAR, last, 999, MPI_COMM_WORLD, &never);
	MPI_Cancel(&never);
	MPI_Wait(&never, &status);
	MPI_Test_cancelled(&status, &cancelled);
	expect("cancelled", cancelled, 1);
	static unsigned char kept;
	sent++;
	MPI_Isend(&kept, 1, MPI_UNSIGNED_CHAR, next, 998, MPI_COMM_WORLD, &forgotten);
	MPI_Request_free(&forgotten);
	MPI_Recv(in[0], 1, MPI_UNSIGNED_CHAR, last, 998, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Several operations of a communicator under way at once, and others that are waited for where they are called. */
static void collectives(void)
{
	enum { MOST = 64 };
	int which = (int)draw(COMMS), root = (int)draw((uint32_t)comms[which].size), here = comms[which].rank, n = comms[which].size;
	MPI_Comm comm = comms[which].comm;
	int out[MOST], in[MOST], all[MOST], counts[MOST], places[MOST], total = n * (n + 1) / 2;
	MPI_Request requests[5];
	int one = here + 1, added = 0, scanned = 0, told = here == root ? 77 : 0;
	MPI_Iallreduce(&one, &added, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
	MPI_Ibcast(&told, 1, MPI_INT, root, comm, &requests[1]);
	MPI_Iscan(&one, &scanned, 1, MPI_INT, MPI_SUM, comm, &requests[2]);
	MPI_Ibarrier(comm, &requests[3]);
	for (int peer = 0; peer < n; peer++) {
		out[peer] = here * 100 + peer;
		counts[peer] = 1;
		places[peer] = peer;
	}
	MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm, &requests[4]);
	complete(5, requests, MPI_STATUSES_IGNORE);
	expect("a sum", added, total);
	expect("a broadcast", told, 77);
	expect("a scan", scanned, (here + 1) * (here + 2) / 2);
	for (int peer = 0; peer < n; peer++)
		expect("an exchange", in[peer], peer * 100 + here);

	switch (draw(6)) {
	case 0:
		added = one;
		MPI_Allreduce(MPI_IN_PLACE, &added, 1, MPI_INT, MPI_SUM, comm);
		expect("a sum in place", added, total);
		break;
	case 1:
		all[here] = one;
		MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm);
		expect("a gathered one", all[n - 1], n);
		break;
	case 2:
		all[here] = one;
		if (here == root)
			MPI_Gatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, places, MPI_INT, root, comm);
		else
			MPI_Gatherv(&one, 1, MPI_INT, NULL, NULL, NULL, MPI_DATATYPE_NULL, root, comm);
		if (here == root)
			expect("a gathered one", all[n - 1], n);
		break;
	case 3:
		if (here == root)
			MPI_Scatter(out, 1, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, comm);
		else
			MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, &told, 1, MPI_INT, root, comm);
		if (here != root)
			expect("a scattered one", told, root * 100 + here);
		break;
	case 4:
		/* No other rank has anything for rank 0. */
		for (int peer = 0; peer < n; peer++) {
			counts[peer] = peer != 0 || here == 0;
			all[peer] = counts[peer];
		}
		int back[MOST];
		for (int peer = 0; peer < n; peer++)
			back[peer] = here != 0 || peer == 0;
		MPI_Alltoallv(out, counts, places, MPI_INT, in, back, places, MPI_INT, comm);
		if (here != 0)
			expect("an exchange of own lengths", in[n - 1], (n - 1) * 100 + here);
		break;
	default:
		MPI_Reduce_scatter(out, &added, counts, MPI_INT, MPI_SUM, comm);
		expect("a reduced one", added, 100 * (n - 1) * n / 2 + n * here);
	}
}

/* Another communicator in the place of one: split, copied, of a grid, of two groups. */
static void communicators(void)
{
	int which = 1 + (int)draw(COMMS - 1), kind = (int)draw(across ? 5 : 4), key = (int)draw(2);
	MPI_Comm made, between;
	int color = rank % 2, dimension = size, periodic = 1;
	switch (kind) {
	case 0:
		MPI_Comm_split(MPI_COMM_WORLD, color, key ? -rank : rank, &made);
		break;
	case 1:
		MPI_Comm_dup(comms[which].comm, &made);
		break;
	case 2:
		MPI_Cart_create(MPI_COMM_WORLD, 1, &dimension, &periodic, 1, &made);
		break;
	case 3: {
		MPI_Request request;
		MPI_Comm_idup(comms[which].comm, &made, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		break;
	}
	default: {
		/* Through two groups, which gather, add and hand on across. */
		MPI_Comm half;
		MPI_Comm_split(MPI_COMM_WORLD, color, rank, &half);
		if (size == 1) {
			made = half;
			break;
		}
		MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 5, &between);
		int ones = 1, added = 0, others, gathered[64], mine;
		MPI_Comm_rank(half, &mine);
		MPI_Comm_remote_size(between, &others);
		MPI_Allreduce(&ones, &added, 1, MPI_INT, MPI_SUM, between);
		expect("those of the other side", added, others);
		int root = color == 0 ? (mine == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
		if (root == MPI_PROC_NULL)
			MPI_Gather(NULL, 0, MPI_DATATYPE_NULL, NULL, 0, MPI_DATATYPE_NULL, root, between);
		else if (root == MPI_ROOT)
			MPI_Gather(NULL, 0, MPI_DATATYPE_NULL, gathered, 1, MPI_INT, root, between);
		else
			MPI_Gather(&ones, 1, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, between);
		MPI_Comm_free(&half);
		MPI_Intercomm_merge(between, color, &made);
		MPI_Comm_free(&between);
	}
	}
	MPI_Comm_free(&comms[which].comm);
	comms[which].comm = made;
	MPI_Comm_rank(made, &comms[which].rank);
	MPI_Comm_size(made, &comms[which].size);
}

/* Memory that others write, read and add to. */
static void one_sided(void)
{
	int kind = (int)draw(3), next = (rank + 1) % size, last = (rank + size - 1) % size, one = rank + 1, got = 0;
	int *memory;
	MPI_Win window;
	MPI_Win_allocate(4 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	memset(memory, 0, 4 * sizeof *memory);
	MPI_Barrier(MPI_COMM_WORLD);
	if (kind == 0) {
		MPI_Win_fence(0, window);
		MPI_Put(&one, 1, MPI_INT, next, 0, 1, MPI_INT, window);
		MPI_Win_fence(0, window);
		MPI_Get(&got, 1, MPI_INT, last, 0, 1, MPI_INT, window);
		MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, window);
		MPI_Put(&one, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window);
		MPI_Win_fence(0, window);
		sent += 3;
		expect("the memory after puts", memory[0], last + 1);
		expect("the data from gets", got, (last + size - 1) % size + 1);
		if (rank == 0)
			expect("the accumulated sums", memory[1], size * (size + 1) / 2);
	} else if (kind == 1) {
		MPI_Request request;
		MPI_Win_lock_all(0, window);
		MPI_Rput(&one, 1, MPI_INT, next, 2, 1, MPI_INT, window, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		MPI_Fetch_and_op(&one, &got, MPI_INT, 0, 3, MPI_SUM, window);
		MPI_Win_flush_all(window);
		MPI_Win_unlock_all(window);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
		MPI_Get(&got, 1, MPI_INT, 0, 3, 1, MPI_INT, window);
		MPI_Win_unlock(0, window);
		expect("the accumulated sums", got, size * (size + 1) / 2);
		MPI_Barrier(MPI_COMM_WORLD);
		sent += 3;
	} else if (size > 1) {
		sent++;
		MPI_Group world, to, from;
		int done = 0;
		MPI_Comm_group(MPI_COMM_WORLD, &world);
		MPI_Group_incl(world, 1, &next, &to);
		MPI_Group_incl(world, 1, &last, &from);
		MPI_Win_post(from, 0, window);
		MPI_Win_start(to, 0, window);
		MPI_Put(&one, 1, MPI_INT, next, 0, 1, MPI_INT, window);
		MPI_Win_complete(window);
		while (!done)
			MPI_Win_test(window, &done);
		expect("the memory after puts", memory[0], last + 1);
		MPI_Group_free(&world);
		MPI_Group_free(&to);
		MPI_Group_free(&from);
	}
	MPI_Win_free(&window);
}

int main(int count, char **words)
{
	static unsigned char buffer[4 * MOST_MESSAGES * (MOST_BYTES + 1024)];
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	across = count > 3;
	state = strtoull(words[1], NULL, 10) * 0x9e3779b97f4a7c15ull + 1;
	for (int warm = 0; warm < 20; warm++)
		draw(2);
	private_state = state + (uint64_t)rank;
	comms[0].comm = MPI_COMM_WORLD;
	for (int which = 1; which < COMMS; which++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[which].comm);
	for (int which = 0; which < COMMS; which++) {
		comms[which].rank = rank;
		comms[which].size = size;
	}
	MPI_Buffer_attach(buffer, sizeof buffer);
	static void (*const steps[])(void) = { messages, messages, messages, ring, persistent, collectives, communicators, one_sided };
	for (int step = atoi(words[2]); step > 0; step--)
		steps[draw(sizeof steps / sizeof *steps)]();
	int bytes;
	void *was;
	MPI_Buffer_detach(&was, &bytes);
	uint64_t told[2] = { sum, sent }, all[2];
	MPI_Reduce(told, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("sum %llu messages %llu\n", (unsigned long long)all[0], (unsigned long long)all[1]);
	MPI_Finalize();
	return 0;
}
