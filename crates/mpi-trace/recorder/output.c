/* The file of a rank: records in blocks, each with its length and checksum, so that the file of
 * a killed process is readable. */

#define _GNU_SOURCE
#include "recorder.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (64 << 10)
/* Maximum bytes of a record in addition to a definition. */
#define RECORD 64
/* Maximum nanoseconds between two blocks, as long as calls are made. */
#define BLOCK_SPAN 1000000000ull
/* Unit of recorded times in nanoseconds. */
#define TICK 32
#define ENTRIES (1u << 16)
#define ENTRY_BYTES (8u << 20)
/* Number of an entry that is not in the dictionary: it is written with its definition. */
#define UNKNOWN UINT32_MAX

enum head { HEAD_PREDICTED, HEAD_DEFINED, HEAD_ONCE, HEAD_NAME, HEAD_POLLS, HEAD_ENTRY };

struct bytes {
	uint8_t *at;
	size_t length, capacity;
};

static struct bytes entry, block;
static int file = -1;
static pid_t owner;
static uint64_t flushed;
static uint32_t checksums[256];
static uint32_t names[CALLS], named;

/* The dictionary: entries by number, and an index by their hash. */
static struct { uint32_t at, length, next; } entries[ENTRIES];
static uint32_t entry_count, index_of[2 * ENTRIES];
static struct bytes dictionary;
static uint32_t last;
/* Remainders of times that did not fill a tick. */
static uint64_t computing_left, within_left;

static void complain(const char *what)
{
	fprintf(stderr, "verbena record: cannot %s: %s; the rank's trace ends here\n", what, strerror(errno));
	if (file >= 0)
		close(file);
	file = -1;
	call_stop();
}

static bool room(struct bytes *bytes, size_t more)
{
	if (bytes->length + more <= bytes->capacity)
		return true;
	size_t capacity = 2 * (bytes->length + more);
	uint8_t *moved = realloc(bytes->at, capacity);
	if (moved == NULL)
		return false;
	bytes->at = moved;
	bytes->capacity = capacity;
	return true;
}

static void append(struct bytes *bytes, const void *more, size_t length)
{
	if (!room(bytes, length))
		return complain("remember a call");
	memcpy(bytes->at + bytes->length, more, length);
	bytes->length += length;
}

static void append_number(struct bytes *bytes, uint64_t number)
{
	if (!room(bytes, 10))
		return complain("remember a call");
	while (number >= 0x80) {
		bytes->at[bytes->length++] = (uint8_t)(number | 0x80);
		number >>= 7;
	}
	bytes->at[bytes->length++] = (uint8_t)number;
}

void put(uint64_t number)
{
	append_number(&entry, number);
}

void put_signed(int64_t number)
{
	put((uint64_t)number << 1 ^ (uint64_t)(number >> 63));
}

void put_part(enum part part)
{
	put(part);
}

/* CRC-32 as in Ethernet. */
static uint32_t checksum(const uint8_t *at, size_t length)
{
	uint32_t rest = ~0u;
	for (size_t place = 0; place < length; place++)
		rest = rest >> 8 ^ checksums[(rest ^ at[place]) & 0xff];
	return ~rest;
}

static bool write_all(const uint8_t *at, size_t length)
{
	while (length > 0) {
		ssize_t written = write(file, at, length);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return false;
		at += written;
		length -= (size_t)written;
	}
	return true;
}

static void write_little_endian(uint8_t *at, uint32_t word)
{
	for (int place = 0; place < 4; place++)
		at[place] = (uint8_t)(word >> 8 * place);
}

/* Writes the block, which begins with space for its length and checksum. */
void output_flush(void)
{
	if (file < 0 || block.length <= 8 || owner != getpid())
		return;
	uint32_t length = (uint32_t)(block.length - 8);
	write_little_endian(block.at, length);
	write_little_endian(block.at + 4, checksum(block.at + 8, length));
	if (!write_all(block.at, block.length))
		return complain("write the trace");
	block.length = 8;
}

/* Appends where this process is recorded: a hash of the host's name (FNV-1a), and the number of its
 * processors. */
static void append_host(void)
{
	char host[HOST_NAME_MAX + 1] = "";
	gethostname(host, sizeof host - 1);
	uint32_t mixed = 0x811c9dc5u;
	for (const char *at = host; *at != 0; at++)
		mixed = (mixed ^ (uint8_t)*at) * 0x01000193u;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	append_number(&block, mixed);
	append_number(&block, processors > 0 ? (uint64_t)processors : 1);
}

bool output_open(const char *directory, int rank, int size)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t rest = byte;
		for (int bit = 0; bit < 8; bit++)
			rest = rest >> 1 ^ (rest & 1 ? 0xedb88320u : 0);
		checksums[byte] = rest;
	}
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/rank-%d.trace", directory, rank);
	file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (file < 0) {
		fprintf(stderr, "verbena record: cannot make %s: %s\n", path, strerror(errno));
		return false;
	}
	owner = getpid();
	if (!room(&block, BLOCK + RECORD) || !room(&entry, RECORD)) {
		complain("get memory for the trace");
		return false;
	}
	if (!write_all((const uint8_t *)"VMPITR1\n", 8)) {
		complain("write the trace");
		return false;
	}
	char library[MPI_MAX_LIBRARY_VERSION_STRING];
	int length = 0;
	PMPI_Get_library_version(library, &length);
	length = (int)strcspn(library, "\n,");
	block.length = 8;
	append_number(&block, (uint64_t)rank);
	append_number(&block, (uint64_t)size);
	append_number(&block, TICK);
	append_number(&block, (uint64_t)length);
	append(&block, library, (size_t)length);
	append_host();
	output_flush();
	return file >= 0;
}

void output_close(void)
{
	output_flush();
	if (file >= 0 && owner == getpid())
		close(file);
	file = -1;
}

static void append_name(enum call call)
{
	if (names[call] != 0)
		return;
	const char *name = name_of(call);
	names[call] = ++named;
	append_number(&block, HEAD_NAME);
	append_number(&block, strlen(name));
	append(&block, name, strlen(name));
}

static uint32_t hash(const uint8_t *at, size_t length)
{
	uint64_t mixed = length;
	for (; length >= 8; at += 8, length -= 8) {
		uint64_t word;
		memcpy(&word, at, 8);
		mixed = (mixed ^ word) * 0x9e3779b97f4a7c15ull;
		mixed ^= mixed >> 29;
	}
	for (; length > 0; at++, length--)
		mixed = (mixed ^ *at) * 0x100000001b3ull;
	return (uint32_t)(mixed >> 32 ^ mixed);
}

/* Returns the number of the entry under construction; adds it if it is new. Returns UNKNOWN if
 * the dictionary is full. */
static uint32_t number_of_entry(bool *is_new)
{
	uint32_t place = hash(entry.at, entry.length) % (2 * ENTRIES);
	for (; index_of[place] != 0; place = (place + 1) % (2 * ENTRIES)) {
		uint32_t number = index_of[place] - 1;
		if (entries[number].length == entry.length
		    && memcmp(dictionary.at + entries[number].at, entry.at, entry.length) == 0)
			return number;
	}
	if (entry_count == ENTRIES || dictionary.length + entry.length > ENTRY_BYTES)
		return UNKNOWN;
	entries[entry_count].at = (uint32_t)dictionary.length;
	entries[entry_count].length = (uint32_t)entry.length;
	append(&dictionary, entry.at, entry.length);
	*is_new = true;
	index_of[place] = ++entry_count;
	return entry_count - 1;
}

/* Looks up the entry under construction, for `output_record`; a new one is defined in the block. */
unsigned output_entry(enum call call)
{
	append_name(call);
	/* The kind of call comes last, because it is known last. */
	put(PART_CALL);
	put(names[call] - 1);
	bool is_new = false;
	uint32_t number = number_of_entry(&is_new);
	if (is_new || number == UNKNOWN) {
		append_number(&block, is_new ? HEAD_DEFINED : HEAD_ONCE);
		append_number(&block, entry.length);
		append(&block, entry.at, entry.length);
	} else if (entries[last].next == number + 1) {
		append_number(&block, HEAD_PREDICTED);
	} else {
		append_number(&block, HEAD_ENTRY + (uint64_t)number);
	}
	entry.length = 0;
	if (number != UNKNOWN) {
		entries[last].next = number + 1;
		last = number;
	}
	return number;
}

static void append_ticks(uint64_t nanoseconds, uint64_t *left)
{
	*left += nanoseconds;
	append_number(&block, *left / TICK);
	*left %= TICK;
}

void output_record(unsigned number, uint64_t computing, uint64_t within, uint64_t now)
{
	(void)number;
	append_ticks(computing, &computing_left);
	append_ticks(within, &within_left);
	if (block.length >= BLOCK || now - flushed > BLOCK_SPAN) {
		flushed = now;
		output_flush();
	}
}

/* Records calls since the last record that found no message or request ready. */
void output_polls(enum call call, uint64_t polls, uint64_t within)
{
	append_name(call);
	append_number(&block, HEAD_POLLS);
	append_number(&block, names[call] - 1);
	append_number(&block, polls);
	append_ticks(within, &within_left);
}
