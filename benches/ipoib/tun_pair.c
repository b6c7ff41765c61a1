/* Two TUN devices joined by rings in shared memory: the least that an IP interface carried by two processes can cost.
 *
 * `tun_pair MTU SERVER CLIENT` runs two shell scripts in separate network namespaces, each with an interface ib0 of
 * that MTU and the offloads of `verbena ipoib`, and ends with the client's exit status. The process of each interface reads its device
 * into a slot of a ring and writes the peer's slots to it, without another copy; it sleeps whenever it has nothing to do. */

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 64
#define SIZE (65536 + 64)
/* Packets of one direction before the other one gets its turn. */
#define TURN 64
#define CHECK(condition)                                                                 \
	do {                                                                             \
		if (!(condition)) {                                                      \
			perror(#condition);                                              \
			exit(2);                                                         \
		}                                                                        \
	} while (0)

struct ring {
	_Alignas(64) _Atomic uint32_t written;
	_Alignas(64) _Atomic uint32_t read;
	uint32_t lengths[SLOTS];
	uint8_t slots[SLOTS][SIZE];
};

static struct shared {
	struct ring rings[2];
	/* Whether the process of each end sleeps. */
	_Atomic bool sleeps[2];
} *shared;
static int events[2];

static void wake(int end)
{
	uint64_t one = 1;
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_exchange(&shared->sleeps[end], false))
		CHECK(write(events[end], &one, sizeof one) == sizeof one);
}

static bool is_full(struct ring *ring)
{
	return atomic_load(&ring->written) - atomic_load(&ring->read) == SLOTS;
}

static bool is_empty(struct ring *ring)
{
	return atomic_load(&ring->written) == atomic_load(&ring->read);
}

/* Moves packets between the device and the rings of an end until there are none. */
static void move(int end, int device)
{
	struct ring *out = &shared->rings[end], *in = &shared->rings[!end];
	for (bool moved = true; moved;) {
		moved = false;
		for (int turn = 0; turn < TURN && !is_full(out); turn++) {
			uint32_t at = atomic_load(&out->written) % SLOTS;
			ssize_t length = read(device, out->slots[at], SIZE);
			if (length < 0)
				break;
			out->lengths[at] = (uint32_t)length;
			atomic_fetch_add(&out->written, 1);
			wake(!end);
			moved = true;
		}
		for (int turn = 0; turn < TURN && !is_empty(in); turn++) {
			uint32_t at = atomic_load(&in->read) % SLOTS;
			/* A device that is down refuses it. */
			ssize_t length = write(device, in->slots[at], in->lengths[at]);
			(void)length;
			atomic_fetch_add(&in->read, 1);
			if (turn == 0)
				wake(!end);
			moved = true;
		}
	}
}

static void carry(int end, int device)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct ring *out = &shared->rings[end], *in = &shared->rings[!end];
	for (;;) {
		move(end, device);
		atomic_store(&shared->sleeps[end], true);
		atomic_thread_fence(memory_order_seq_cst);
		if (!is_empty(in)) {
			atomic_store(&shared->sleeps[end], false);
			continue;
		}
		struct pollfd waits[] = { { events[end], POLLIN, 0 },
					  { device, is_full(out) ? 0 : POLLIN, 0 } };
		poll(waits, 2, -1);
		atomic_store(&shared->sleeps[end], false);
		uint64_t count;
		if (waits[0].revents & POLLIN)
			CHECK(read(events[end], &count, sizeof count) == sizeof count);
	}
}

static void write_file(const char *name, const char *text)
{
	int file = open(name, O_WRONLY);
	CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
	close(file);
}

/* Makes the interface of an end in a separate namespace, and returns its device. */
static int make_interface(int end, const char *mtu)
{
	CHECK(unshare(CLONE_NEWNET) == 0);
	int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
	CHECK(device >= 0);
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR };
	strcpy(request.ifr_name, "ib0");
	CHECK(ioctl(device, TUNSETIFF, &request) == 0);
	CHECK(ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN) == 0);
	char command[200];
	snprintf(command, sizeof command, "ip link set lo up; ip link set ib0 mtu %s up; ip address add 10.0.0.%d/24 dev ib0",
		 mtu, end + 1);
	CHECK(system(command) == 0);
	return device;
}

static pid_t start(int end, const char *mtu, const char *script)
{
	pid_t process = fork();
	CHECK(process >= 0);
	if (process > 0)
		return process;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int device = make_interface(end, mtu);
	if (fork() == 0)
		carry(end, device);
	pid_t command = fork();
	if (command == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(127);
	}
	int status;
	CHECK(waitpid(command, &status, 0) == command);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int main(int count, char **words)
{
	CHECK(count == 4);
	char map[64];
	uid_t user = getuid();
	gid_t group = getgid();
	CHECK(unshare(CLONE_NEWUSER) == 0);
	snprintf(map, sizeof map, "0 %u 1", user);
	write_file("/proc/self/setgroups", "deny");
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof map, "0 %u 1", group);
	write_file("/proc/self/gid_map", map);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int end = 0; end < 2; end++)
		CHECK((events[end] = eventfd(0, EFD_NONBLOCK)) >= 0);
	pid_t server = start(0, words[1], words[2]);
	pid_t client = start(1, words[1], words[3]);
	int status;
	CHECK(waitpid(client, &status, 0) == client);
	/* Its interface and its script end with it. */
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
