/* The device's files below /sys by every family of calls: each sees the same tree, with the same content, which agrees
 * with the verbs.
 *
 * Sources: Documentation/ABI/stable/sysfs-class-infiniband and sysfs-devices of the kernel (names, formats); open(2),
 * openat(2), readlink(2), realpath(3), scandir(3), readdir(3), glob(3), nftw(3), chdir(2), stat(2), statx(2),
 * access(2), inotify(7). */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "contract.h"

#ifndef STATX_BASIC_STATS
/* musl has statx(2) since 1.2.5. */
#include <linux/stat.h>

static int statx(int directory, const char *path, int flags, unsigned mask, struct statx *status)
{
	return (int)syscall(SYS_statx, directory, path, flags, mask, status);
}
#endif

#define CLASS "/sys/class/infiniband"
#define VERBS_CLASS "/sys/class/infiniband_verbs"
#define DEVICE "/sys/devices/platform/verbena.0"

/* A tree as a family of calls sees it: a line a file or link. */
struct listing {
	char lines[512][256];
	int count;
};

static struct listing reference;

static void add(struct listing *listing, const char *path, const char *kind, const char *content)
{
	CHECK(listing->count < 512);
	char *line = listing->lines[listing->count++];
	snprintf(line, sizeof listing->lines[0], "%s %s %s", path, kind, content);
	line[strcspn(line, "\n")] = '\0';
}

static int by_text(const void *one, const void *other)
{
	return strcmp(one, other);
}

static void same_as_reference(struct listing *listing, const char *family)
{
	qsort(listing->lines, (size_t)listing->count, sizeof *listing->lines, by_text);
	for (int i = 0; i < listing->count && i < reference.count; i++)
		if (strcmp(listing->lines[i], reference.lines[i]) != 0)
			check_failed(__FILE__, __LINE__, "by %s: \"%s\" and not \"%s\"", family, listing->lines[i],
				     reference.lines[i]);
	CHECK_EQUAL(listing->count, reference.count);
	listing->count = 0;
}

/* Returns the bytes that read(2) reads from a descriptor, and closes it. */
static const char *text_of(int fd)
{
	static char text[4096];
	CHECK(fd >= 0);
	ssize_t length = read(fd, text, sizeof text - 1);
	CHECK(length >= 0);
	text[length] = '\0';
	CHECK_CALL(close(fd));
	return text;
}

/* The tree of a directory, with paths that begin with `name`: by opendir, readdir, lstat, readlink and open of absolute paths. */
static void by_absolute_paths(struct listing *listing, const char *path)
{
	DIR *stream = opendir(path);
	if (stream == NULL)
		check_failed(__FILE__, __LINE__, "opendir %s: %m", path);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		char below[PATH_MAX], target[256] = "";
		struct stat status;
		CHECK(snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below);
		CHECK_CALL(lstat(below, &status));
		if (S_ISLNK(status.st_mode)) {
			CHECK(readlink(below, target, sizeof target - 1) > 0);
			add(listing, below, "link", target);
		} else if (S_ISDIR(status.st_mode)) {
			CHECK_EQUAL(access(below, R_OK | X_OK), 0);
			by_absolute_paths(listing, below);
		} else {
			CHECK(S_ISREG(status.st_mode));
			CHECK_EQUAL(status.st_mode & 0777, 0444);
			CHECK_EQUAL(access(below, R_OK), 0);
			add(listing, below, "file", text_of(open(below, O_RDONLY)));
		}
	}
	CHECK_CALL(closedir(stream));
}

/* By descriptors of directories: openat, fdopendir, fstatat, readlinkat, faccessat, statx. `raw`: by system calls alone. */
static void by_descriptors(struct listing *listing, int directory, const char *path, bool raw)
{
	DIR *stream = fdopendir(dup(directory));
	CHECK_POINTER(stream);
	rewinddir(stream);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		char below[PATH_MAX], target[256] = "";
		struct stat status;
		struct statx more;
		CHECK(snprintf(below, sizeof below, "%s/%s", path, name) < (int)sizeof below);
		CHECK_CALL(fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW));
		CHECK_CALL(statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &more));
		CHECK_EQUAL(more.stx_mode, status.st_mode);
		CHECK_EQUAL(more.stx_ino, status.st_ino);
		if (S_ISLNK(status.st_mode)) {
			CHECK(raw ? syscall(SYS_readlinkat, directory, name, target, sizeof target - 1) > 0
				  : readlinkat(directory, name, target, sizeof target - 1) > 0);
			add(listing, below, "link", target);
			continue;
		}
		CHECK_EQUAL(faccessat(directory, name, R_OK, 0), 0);
		int fd = raw ? (int)syscall(SYS_openat, directory, name, O_RDONLY) : openat(directory, name, O_RDONLY);
		CHECK(fd >= 0);
		if (S_ISDIR(status.st_mode)) {
			by_descriptors(listing, fd, below, raw);
			CHECK_CALL(close(fd));
		} else {
			add(listing, below, "file", text_of(fd));
		}
	}
	CHECK_CALL(closedir(stream));
}

/* By system calls with absolute paths: getdents64 of an openat2, statx, readlinkat. */
static void by_system_calls(struct listing *listing, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY };
	int directory = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	char entries[8192];
	CHECK(directory >= 0);
	for (long size; (size = syscall(SYS_getdents64, directory, entries, sizeof entries)) != 0;) {
		CHECK(size > 0);
		for (long at = 0; at < size; at += ((struct dirent64 *)(entries + at))->d_reclen) {
			const char *name = ((struct dirent64 *)(entries + at))->d_name;
			char below[PATH_MAX], target[256] = "";
			struct statx status;
			if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
				continue;
			CHECK(snprintf(below, sizeof below, "%s/%s", path, name) < (int)sizeof below);
			CHECK_CALL(syscall(SYS_statx, AT_FDCWD, below, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &status));
			if (S_ISLNK(status.stx_mode)) {
				CHECK(syscall(SYS_readlinkat, AT_FDCWD, below, target, sizeof target - 1) > 0);
				add(listing, below, "link", target);
			} else if (S_ISDIR(status.stx_mode)) {
				by_system_calls(listing, below);
			} else {
				struct open_how reading = { .flags = O_RDONLY };
				CHECK_CALL(syscall(SYS_faccessat, AT_FDCWD, below, R_OK));
				add(listing, below, "file",
				    text_of((int)syscall(SYS_openat2, AT_FDCWD, below, &reading, sizeof reading)));
			}
		}
	}
	CHECK_CALL(close(directory));
}

/* By relative paths, from the working directory. */
static void by_working_directory(struct listing *listing, const char *path)
{
	struct dirent **names;
	char here[PATH_MAX];
	CHECK_CALL(chdir(path));
	CHECK_POINTER(getcwd(here, sizeof here));
	CHECK_EQUAL(strcmp(here, path), 0);
	int count = scandir(".", &names, NULL, alphasort);
	CHECK(count >= 2);
	for (int i = 0; i < count; i++) {
		const char *name = names[i]->d_name;
		char below[PATH_MAX], target[256] = "";
		struct stat status;
		CHECK(snprintf(below, sizeof below, "%s/%s", path, name) < (int)sizeof below);
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
			CHECK_CALL(lstat(name, &status));
			if (S_ISLNK(status.st_mode)) {
				CHECK(readlink(name, target, sizeof target - 1) > 0);
				add(listing, below, "link", target);
			} else if (S_ISDIR(status.st_mode)) {
				by_working_directory(listing, below);
				CHECK_CALL(chdir(path));
			} else {
				FILE *file = fopen(name, "r");
				char text[4096];
				CHECK_POINTER(file);
				size_t length = fread(text, 1, sizeof text - 1, file);
				text[length] = '\0';
				CHECK_CALL(fclose(file));
				add(listing, below, "file", text);
			}
		}
		free(names[i]);
	}
	free(names);
}

static struct listing walked;

static int visit(const char *path, const struct stat *status, int kind, struct FTW *at)
{
	char target[256] = "";
	(void)status;
	CHECK(path[at->base - 1] == '/' && strchr(path + at->base, '/') == NULL);
	if (kind == FTW_SL) {
		CHECK(readlink(path, target, sizeof target - 1) > 0);
		add(&walked, path, "link", target);
	} else if (kind == FTW_F) {
		add(&walked, path, "file", text_of(open(path, O_RDONLY)));
	} else {
		CHECK_EQUAL(kind, FTW_D);
	}
	return 0;
}

static void every_family_of_calls_sees_the_same_tree(void)
{
	static struct listing listing;
	hang_after(60);
	CHECK_CALL(ibv_close_device(device_open()));
	by_absolute_paths(&reference, DEVICE);
	qsort(reference.lines, (size_t)reference.count, sizeof *reference.lines, by_text);
	CHECK(reference.count > 60);
	by_absolute_paths(&listing, DEVICE);
	same_as_reference(&listing, "absolute paths, again");
	for (int raw = 0; raw < 2; raw++) {
		int directory = open(DEVICE, O_RDONLY | O_DIRECTORY);
		CHECK(directory >= 0);
		by_descriptors(&listing, directory, DEVICE, raw != 0);
		same_as_reference(&listing, raw ? "system calls on descriptors" : "descriptors");
		CHECK_CALL(close(directory));
	}
	by_system_calls(&listing, DEVICE);
	same_as_reference(&listing, "system calls with absolute paths");
	by_working_directory(&listing, DEVICE);
	same_as_reference(&listing, "the working directory");
	CHECK_CALL(nftw(DEVICE, visit, 16, FTW_PHYS));
	same_as_reference(&walked, "nftw");
	CHECK_CALL(nftw64(DEVICE, (void *)visit, 16, FTW_PHYS));
	same_as_reference(&walked, "nftw64");
}

static void is_linked(const char *path, const char *expected)
{
	char resolved[PATH_MAX];
	if (realpath(path, resolved) == NULL)
		check_failed(__FILE__, __LINE__, "realpath %s: %m", path);
	if (strcmp(resolved, expected) != 0)
		check_failed(__FILE__, __LINE__, "realpath %s: %s and not %s", path, resolved, expected);
#ifdef __GLIBC__
	char *same = canonicalize_file_name(path);
	CHECK_POINTER(same);
	CHECK_EQUAL(strcmp(same, expected), 0);
	free(same);
#endif
}

static void links_lead_where_a_kernel_s_do(void)
{
	CHECK_CALL(ibv_close_device(device_open()));
	is_linked(CLASS "/verbena0", DEVICE "/infiniband/verbena0");
	is_linked(CLASS "/verbena0/device", DEVICE);
	is_linked(CLASS "/verbena0/../..", DEVICE);
	is_linked(CLASS "//verbena0/./device/infiniband/verbena0", DEVICE "/infiniband/verbena0");
	is_linked(CLASS "/verbena0/subsystem", CLASS);
	is_linked(VERBS_CLASS "/uverbs0", DEVICE "/infiniband_verbs/uverbs0");
	is_linked(VERBS_CLASS "/verbena0/device", DEVICE);
	is_linked(VERBS_CLASS "/uverbs0/subsystem", VERBS_CLASS);
	is_linked(DEVICE "/subsystem", "/sys/bus/platform");
	char resolved[PATH_MAX];
	CHECK(realpath(CLASS "/verbena0/nothing", resolved) == NULL);
	CHECK_EQUAL(errno, ENOENT);
}

static int matches(const char *pattern, const char *first)
{
	glob_t found;
	int result = glob(pattern, 0, NULL, &found), count = result == 0 ? (int)found.gl_pathc : 0;
	CHECK(result == 0 || result == GLOB_NOMATCH);
	if (count > 0 && strcmp(found.gl_pathv[0], first) != 0)
		check_failed(__FILE__, __LINE__, "glob %s: %s", pattern, found.gl_pathv[0]);
	if (result == 0)
		globfree(&found);
	return count;
}

static void patterns_match(void)
{
	CHECK_CALL(ibv_close_device(device_open()));
	CHECK_EQUAL(matches(CLASS "/*0", CLASS "/verbena0"), 1);
	CHECK_EQUAL(matches(CLASS "/verb*0/node_type", CLASS "/verbena0/node_type"), 1);
	CHECK_EQUAL(matches(CLASS "/verbena0/ports/*/lid", CLASS "/verbena0/ports/1/lid"), 1);
	CHECK(matches(CLASS "/*0/ports/1/counters/port_*_data", CLASS "/verbena0/ports/1/counters/port_rcv_data") == 2);
	CHECK_EQUAL(matches(CLASS "/mlx*", ""), 0);
	CHECK(matches("/dev/infiniband/*", "/dev/infiniband/rdma_cm") >= 3);
}

/* The first number of a file. */
static uint64_t number_in(const char *path)
{
	const char *text = text_of(open(path, O_RDONLY));
	char *end;
	errno = 0;
	uint64_t number = strtoull(text, &end, 0);
	CHECK(errno == 0 && end != text);
	return number;
}

static void files_say_what_verbs_say(void)
{
	device_choose(0);
	struct ibv_context *context = device_open();
	struct ibv_device_attr device;
	CHECK_CALL(ibv_query_device(context, &device));
	CHECK_EQUAL(strcmp(ibv_get_device_name(context->device), "verbena0"), 0);
	unsigned guid[4];
	CHECK_EQUAL(sscanf(text_of(open(CLASS "/verbena0/node_guid", O_RDONLY)), "%x:%x:%x:%x", &guid[0], &guid[1], &guid[2],
			   &guid[3]), 4);
	uint64_t whole = ((uint64_t)guid[0] << 48) | ((uint64_t)guid[1] << 32) | ((uint64_t)guid[2] << 16) | guid[3];
	CHECK_EQUAL(htobe64(whole), ibv_get_device_guid(context->device));
	CHECK_EQUAL(strncmp(text_of(open(CLASS "/verbena0/fw_ver", O_RDONLY)), device.fw_ver, strlen(device.fw_ver)), 0);
	CHECK_EQUAL(number_in(CLASS "/verbena0/device/vendor"), device.vendor_id);
	CHECK_EQUAL(number_in(CLASS "/verbena0/device/device"), device.vendor_part_id);
	const char *node = text_of(open(CLASS "/verbena0/device/numa_node", O_RDONLY));
	CHECK(strcmp(node, "-1\n") == 0 || strcmp(node, "0\n") == 0);
	CHECK_EQUAL(strcmp(text_of(open(VERBS_CLASS "/uverbs0/ibdev", O_RDONLY)), "verbena0\n"), 0);
	CHECK_EQUAL(number_in(VERBS_CLASS "/abi_version"), 6);
	for (int number = 1; number <= device.phys_port_cnt; number++) {
		char path[PATH_MAX];
		struct ibv_port_attr port;
		CHECK_CALL(ibv_query_port(context, (uint8_t)number, &port));
#define OF_PORT(...) (snprintf(path, sizeof path, CLASS "/verbena0/ports/" __VA_ARGS__), path)
		CHECK_EQUAL(number_in(OF_PORT("%d/lid", number)), port.lid);
		CHECK_EQUAL(number_in(OF_PORT("%d/sm_lid", number)), port.sm_lid);
		CHECK_EQUAL(number_in(OF_PORT("%d/state", number)), port.state);
		CHECK_EQUAL(number_in(OF_PORT("%d/cap_mask", number)), port.port_cap_flags);
		for (int index = 0; index < port.gid_tbl_len; index++) {
			union ibv_gid gid, in_file;
			CHECK_CALL(ibv_query_gid(context, (uint8_t)number, index, &gid));
			int fd = open(OF_PORT("%d/gids/%d", number, index), O_RDONLY);
			if (fd < 0) {
				CHECK(gid.global.subnet_prefix == 0 && gid.global.interface_id == 0);
				continue;
			}
			const char *text = text_of(fd);
			char address[64];
			CHECK(sscanf(text, "%63s", address) == 1 && inet_pton(AF_INET6, address, &in_file) == 1);
			CHECK_EQUAL(memcmp(&in_file, &gid, sizeof gid), 0);
		}
		__be16 key;
		CHECK_CALL(ibv_query_pkey(context, (uint8_t)number, 0, &key));
		CHECK_EQUAL(number_in(OF_PORT("%d/pkeys/0", number)), ntohs(key));
	}
	CHECK_CALL(ibv_close_device(context));
}

#define COUNTERS CLASS "/verbena0/ports/1/counters"

/* 4 bytes a word. */
static void counters_are_live(void)
{
	enum { LENGTH = 1 << 20, TIMES = 8 };
	hang_after(60);
	struct pair pair = { .one = endpoint_open(endpoint_defaults()), .other = endpoint_open(endpoint_defaults()) };
	pair_connect(&pair, 7);
	uint8_t *memory = private_pages(2 * LENGTH);
	struct ibv_mr *from = region(&pair.one, memory, LENGTH, ALL_ACCESS);
	struct window to = region_window(region(&pair.other, memory + LENGTH, LENGTH, ALL_ACCESS));
	int directory = open(COUNTERS, O_RDONLY | O_DIRECTORY);
	CHECK(directory >= 0);
	uint64_t before = number_in(COUNTERS "/port_xmit_data"), packets = number_in(COUNTERS "/port_xmit_packets");
	for (int i = 0; i < TIMES; i++) {
		struct ibv_sge piece = { (uintptr_t)memory, LENGTH, from->lkey };
		struct ibv_send_wr write = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = { to.address, to.rkey } }, *bad;
		CHECK_CALL(ibv_post_send(pair.one.qp, &write, &bad));
		CHECK_EQUAL(status_of(&pair.one), IBV_WC_SUCCESS);
	}
	CHECK_EQUAL(number_in(COUNTERS "/port_xmit_data") - before, TIMES * LENGTH / 4);
	CHECK(number_in(COUNTERS "/port_xmit_packets") > packets);
	/* By a descriptor as by a path. */
	const char *text = text_of(openat(directory, "port_rcv_data", O_RDONLY));
	CHECK_EQUAL(strtoull(text, NULL, 10) - before, TIMES * LENGTH / 4);
	CHECK_EQUAL(number_in(CLASS "/verbena0/ports/1/hw_counters/req_cqe_error"), 0);
}

/* Files are read-only, and other names do not exist. */
static void what_a_kernel_refuses_is_refused(void)
{
	struct stat status;
	CHECK_CALL(ibv_close_device(device_open()));
	CHECK_EQUAL(open(CLASS "/verbena0/node_type", O_RDWR), -1);
	CHECK_EQUAL(errno, EACCES);
	CHECK(fopen(CLASS "/verbena0/node_type", "w") == NULL);
	CHECK_EQUAL(errno, EACCES);
	CHECK_EQUAL(open(CLASS "/verbena0/node_type", O_RDONLY | O_DIRECTORY), -1);
	CHECK_EQUAL(errno, ENOTDIR);
	CHECK_EQUAL(stat(CLASS "/verbena0/nothing", &status), -1);
	CHECK_EQUAL(errno, ENOENT);
	CHECK_EQUAL(stat(CLASS "/verbena0/node_type/", &status), -1);
	CHECK_EQUAL(errno, ENOTDIR);
	CHECK(opendir(CLASS "/verbena0/node_type") == NULL);
	CHECK_EQUAL(errno, ENOTDIR);
	int queue = inotify_init1(IN_CLOEXEC);
	CHECK(queue >= 0);
	CHECK_EQUAL(inotify_add_watch(queue, CLASS "/verbena0/node_type", IN_MODIFY), -1);
	CHECK_EQUAL(errno, EACCES);
	CHECK_EQUAL(chdir(CLASS "/verbena0/ports"), 0);
	CHECK_EQUAL(open("nothing", O_RDONLY), -1);
	CHECK_EQUAL(errno, ENOENT);
}

/* A child has the tree for as long as it lives, whichever process made it. */
static void a_child_has_the_tree(void)
{
	hang_after(60);
	CHECK_EQUAL(number_in(CLASS "/verbena0/node_type"), 1);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pid_t grandchild = fork();
		if (grandchild == 0) {
			usleep(200000);
			_exit(number_in(CLASS "/verbena0/node_type") == 1 ? 0 : 1);
		}
		CHECK_EQUAL(number_in(CLASS "/verbena0/node_type"), 1);
		int status;
		CHECK_EQUAL(waitpid(grandchild, &status, 0), grandchild);
		CHECK_EQUAL(status, 0);
		exit(0);
	}
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(number_in(CLASS "/verbena0/node_type"), 1);
}

const struct test tests[] = {
	{ "every_family_of_calls_sees_the_same_tree", every_family_of_calls_sees_the_same_tree },
	{ "links_lead_where_a_kernel_s_do", links_lead_where_a_kernel_s_do },
	{ "patterns_match", patterns_match },
	{ "files_say_what_verbs_say", files_say_what_verbs_say },
	{ "counters_are_live", counters_are_live },
	{ "what_a_kernel_refuses_is_refused", what_a_kernel_refuses_is_refused },
	{ "a_child_has_the_tree", a_child_has_the_tree },
	{ 0 },
};
