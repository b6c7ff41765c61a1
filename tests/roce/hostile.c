/* A hostile host: sends unsolicited RoCEv2 packets to a process whose secrets it knows. The same each time for a seed.
 *
 *   hostile NEAR FAR TARGET SEED COUNT
 *
 * NEAR is the address of the victims' peer, FAR one of a stranger; VICTIMS names the file in which the process
 * describes itself. Packets are whole or damaged, of the right service or of another, of every valid and invalid
 * opcode, with numbers, keys, addresses and lengths that are right, almost right, or random; short, long, and noise.
 * Only packets that regular traffic could not survive in any adapter are left out: whole packets from NEAR to the
 * regular queue pair. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "victims.h"

#define ROCE 4791
#define MOST 1400
#define BTH 12

static uint64_t state;

/* xorshift64* */
static uint64_t word(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint32_t below(uint32_t limit)
{
	return (uint32_t)((word() >> 32) * limit >> 32);
}

static bool once_in(uint32_t turns)
{
	return below(turns) == 0;
}

static uint32_t table[256];

static void make_table(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t value = byte;
		for (int bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
		table[byte] = value;
	}
}

static uint32_t crc(uint32_t sum, const uint8_t *bytes, size_t length)
{
	while (length-- > 0)
		sum = sum >> 8 ^ table[(sum ^ *bytes++) & 0xff];
	return sum;
}

/* An address of IPv4 or IPv6. */
union name {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct sender {
	int socket;
	union name name;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static union name name_of(const char *address, uint16_t port)
{
	union name name = { .v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) } };
	if (inet_pton(AF_INET6, address, &name.v6.sin6_addr) == 1)
		return name;
	name = (union name){ .v4 = { .sin_family = AF_INET, .sin_port = htons(port) } };
	if (inet_pton(AF_INET, address, &name.v4.sin_addr) != 1)
		fail(address);
	return name;
}

static struct sender sender_open(const char *address)
{
	struct sender sender = { .name = name_of(address, 0) };
	sender.socket = socket(sender.name.any.sa_family, SOCK_DGRAM, 0);
	int never = IP_PMTUDISC_DO, room = 4 << 20;
	socklen_t length = sizeof sender.name;
	bool is_v4 = sender.name.any.sa_family == AF_INET;
	if ((is_v4 && setsockopt(sender.socket, IPPROTO_IP, IP_MTU_DISCOVER, &never, sizeof never) != 0) ||
	    setsockopt(sender.socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room) != 0 ||
	    bind(sender.socket, &sender.name.any, sizeof sender.name) != 0 ||
	    getsockname(sender.socket, &sender.name.any, &length) != 0)
		fail(address);
	return sender;
}

#define UDP 8

static uint8_t *copy(uint8_t *at, const void *from, size_t length)
{
	memcpy(at, from, length);
	return at + length;
}

/* The header of IPv4 as the ICRC covers it, before so many bytes: identification 0 and "do not fragment". */
static uint8_t *cover_v4(uint8_t *at, const struct sockaddr_in *from, const struct sockaddr_in *to, size_t behind)
{
	uint16_t total = htons((uint16_t)(20 + behind));
	at = copy(at, (uint8_t[]){ 0x45, 0xff }, 2);
	at = copy(at, &total, 2);
	at = copy(at, (uint8_t[]){ 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff }, 8);
	at = copy(at, &from->sin_addr, 4);
	return copy(at, &to->sin_addr, 4);
}

/* That of IPv6. */
static uint8_t *cover_v6(uint8_t *at, const struct sockaddr_in6 *from, const struct sockaddr_in6 *to, size_t behind)
{
	uint16_t payload = htons((uint16_t)behind);
	at = copy(at, (uint8_t[]){ 0x6f, 0xff, 0xff, 0xff }, 4);
	at = copy(at, &payload, 2);
	at = copy(at, (uint8_t[]){ 17, 0xff }, 2);
	at = copy(at, &from->sin6_addr, 16);
	return copy(at, &to->sin6_addr, 16);
}

/* Puts the ICRC behind `length` bytes: annex A17. The ports lie at the same place in both kinds of names. */
static void seal(const struct sender *from, const union name *to, uint8_t *packet, size_t length)
{
	uint8_t covered[8 + 40 + UDP + 5], *at = covered;
	size_t behind = UDP + length + 4;
	uint16_t data = htons((uint16_t)behind);
	at = copy(at, (uint8_t[]){ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, 8);
	at = to->any.sa_family == AF_INET ? cover_v4(at, &from->name.v4, &to->v4, behind) :
					    cover_v6(at, &from->name.v6, &to->v6, behind);
	at = copy(at, &from->name.v4.sin_port, 2);
	at = copy(at, &to->v4.sin_port, 2);
	at = copy(at, &data, 2);
	at = copy(at, (uint8_t[]){ 0xff, 0xff }, 2);
	at = copy(at, packet, 4);
	*at++ = 0xff;
	uint32_t sum = crc(0xffffffff, covered, (size_t)(at - covered));
	sum = ~crc(sum, packet + 5, length - 5);
	memcpy(packet + length, (uint8_t[]){ sum, sum >> 8, sum >> 16, sum >> 24 }, 4);
}

static uint8_t *put(uint8_t *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
	return at + bytes;
}

static uint64_t address_near(const struct victims *victims)
{
	switch (below(6)) {
	case 0:
		return word();
	case 1:
		return victims->address - below(64);
	case 2:
		return victims->address + victims->length - below(64);
	case 3:
		return UINT64_MAX - below(64);
	default:
		return victims->address + below((uint32_t)victims->length);
	}
}

static uint32_t length_near(const struct victims *victims, uint32_t payload)
{
	const uint32_t lengths[] = { 0, 1, 8, payload, payload, payload, 1024, 1025, 3000, (uint32_t)victims->length,
				     (uint32_t)victims->length + 1, 1u << 31, UINT32_MAX };
	return lengths[below(sizeof lengths / sizeof *lengths)];
}

static uint32_t key_near(const struct victims *victims)
{
	return once_in(4) ? (uint32_t)word() : once_in(8) ? victims->rkey ^ 1u << below(32) : victims->rkey;
}

/* Headers as an operation of a service wants them. */
static uint8_t *extensions(uint8_t *at, const struct victims *victims, uint32_t service, uint32_t operation,
			   uint32_t payload)
{
	bool request = operation < 0x0d || operation > 0x12;
	if (service == 0xa0 && request)
		at = put(at, once_in(4) ? below(1 << 24) : victims->srq, 4);
	if (service == 0x60) {
		at = put(at, once_in(4) ? word() : victims->queue_key, 4);
		at = put(at, below(1 << 24), 4);
	}
	if (operation == 0x1c)
		at = put(at, below(64), 4);
	if (operation == 0x06 || operation == 0x0a || operation == 0x0b || operation == 0x0c || operation == 0x1c ||
	    operation == 0x1d) {
		at = put(at, address_near(victims), 8);
		at = put(at, key_near(victims), 4);
		at = put(at, length_near(victims, payload), 4);
	}
	if (operation == 0x13 || operation == 0x14) {
		at = put(at, once_in(4) ? address_near(victims) : address_near(victims) & ~UINT64_C(7), 8);
		at = put(at, key_near(victims), 4);
		at = put(at, word(), 8);
		at = put(at, word(), 8);
	}
	if (operation >= 0x0d && operation <= 0x12 && operation != 0x0e)
		at = put(at, once_in(2) ? 0x1f : below(256), 1), at = put(at, below(32), 3);
	if (operation == 0x12)
		at = put(at, word(), 8);
	if (operation == 3 || operation == 5 || operation == 9 || operation == 0x0b || operation == 0x16 ||
	    operation == 0x17)
		at = put(at, once_in(2) ? victims->rkey : word(), 4);
	return at;
}

/* A packet, and how long it is; whether its ICRC is right. */
static size_t make(uint8_t *packet, const struct victims *victims, const struct sender *from,
		   const union name *to, bool is_near)
{
	if (once_in(16)) {
		size_t length = below(300);
		for (size_t i = 0; i < length; i++)
			packet[i] = (uint8_t)word();
		return length;
	}
	const struct victim *victim = &victims->each[below(VICTIMS)];
	uint32_t number = victim->number, service = once_in(8) ? below(8) << 5 : victim->service;
	if (once_in(16))
		number = below(1 << 24);
	else if (!is_near && once_in(2))
		number = victims->honest;
	uint32_t operation = below(32);
	uint32_t payload = once_in(2) ? 1024 : below(1100);
	if ((operation >= 0x0c && operation <= 0x0c) || (operation >= 0x11 && operation <= 0x14) || operation == 0x1c)
		payload = once_in(16) ? payload : 0;
	if (operation == 0x1d)
		payload = once_in(16) ? payload : 8;
	uint32_t pad = -payload & 3;
	uint8_t *at = packet;
	at = put(at, service | operation, 1);
	at = put(at, (uint32_t)(once_in(2) << 7 | 1 << 6 | (once_in(16) ? below(4) : pad) << 4 | (once_in(32) ? 1 : 0)), 1);
	at = put(at, once_in(32) ? word() : 0xffff, 2);
	at = put(at, once_in(16) ? word() : 0, 1);
	at = put(at, number, 3);
	at = put(at, (uint64_t)once_in(2) << 7, 1);
	at = put(at, once_in(8) ? word() : victims->psn + below(once_in(4) ? 64 : 4), 3);
	at = extensions(at, victims, service, operation, payload);
	for (uint32_t i = 0; i < payload + pad; i++)
		*at++ = (uint8_t)(0x80 | i);
	size_t length = (size_t)(at - packet);
	if (once_in(16))
		length = BTH + below((uint32_t)(length - BTH) + 1);
	if (once_in(16))
		packet[below((uint32_t)length)] ^= (uint8_t)(1 << below(8));
	uint32_t meant = (uint32_t)packet[5] << 16 | (uint32_t)packet[6] << 8 | packet[7];
	seal(from, to, packet, length);
	if (once_in(16) || (is_near && meant == victims->honest))
		packet[length + below(4)] ^= (uint8_t)(1 + below(255));
	return length + 4;
}

static struct victims victims_of(const char *path)
{
	struct victims victims;
	for (;; usleep(5000)) {
		FILE *file = fopen(path, "r");
		if (file == NULL)
			continue;
		if (fread(&victims, sizeof victims, 1, file) != 1)
			fail(path);
		fclose(file);
		return victims;
	}
}

int main(int count, char **arguments)
{
	if (count != 6 || getenv("VICTIMS") == NULL) {
		fprintf(stderr, "usage: VICTIMS=FILE %s NEAR FAR TARGET SEED COUNT\n", arguments[0]);
		return 2;
	}
	make_table();
	struct sender near = sender_open(arguments[1]), far = sender_open(arguments[2]);
	union name to = name_of(arguments[3], ROCE);
	state = strtoull(arguments[4], NULL, 10) * 2 + 1;
	struct victims victims = victims_of(getenv("VICTIMS"));
	uint64_t wanted = strtoull(arguments[5], NULL, 10), sent = 0;
	while (sent < wanted) {
		uint8_t packet[MOST];
		bool is_near = !once_in(4);
		const struct sender *from = is_near ? &near : &far;
		size_t length = make(packet, &victims, from, &to, is_near);
		if (sendto(from->socket, packet, length, 0, &to.any, sizeof to) >= 0)
			sent++;
	}
	printf("%llu packets\n", (unsigned long long)sent);
	return 0;
}
