/* Calls one function of the shim on every kind of path and reports errors.
   Usage: paths FUNCTION (a name in the table at the end). */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NODE "/dev/infiniband/verbena0"
#define FIRST "/dev/infiniband/uverbs0"
#define DIRECTORY "/sys/class/infiniband/verbena0"
#define LID "/sys/class/infiniband/verbena0/ports/1/lid"
#define IBDEV "/sys/class/infiniband_verbs/verbena0/ibdev"
#define NOTHING "/sys/class/infiniband/verbena0/nothing"
#define PORTS "/sys/class/infiniband/verbena0/ports"
#define MANAGER "/dev/infiniband/rdma_cm"

static int wrong;

#define CHECK(what) do { if (!(what)) { wrong++; \
	printf("%s:%d: not so: %s (errno %d)\n", __func__, __LINE__, #what, errno); } } while (0)

/* No longer in the headers, but in the library for old programs. */
int __xstat(int, const char *, struct stat *);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat(int, const char *, struct stat *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstat(int, int, struct stat *);
int __fxstat64(int, int, struct stat64 *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __fxstatat64(int, int, const char *, struct stat64 *, int);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);

typedef int (*stat_like)(const char *, struct stat *);
typedef int (*access_like)(const char *, int);
typedef int (*open_like)(const char *, int);

static int call_stat64(const char *p, struct stat *s) { return stat64(p, (struct stat64 *)s); }
static int call_lstat64(const char *p, struct stat *s) { return lstat64(p, (struct stat64 *)s); }
static int call_fstatat(const char *p, struct stat *s) { return fstatat(AT_FDCWD, p, s, 0); }
static int call_fstatat64(const char *p, struct stat *s)
{
	return fstatat64(AT_FDCWD, p, (struct stat64 *)s, 0);
}
static int call_xstat(const char *p, struct stat *s) { return __xstat(1, p, s); }
static int call_xstat64(const char *p, struct stat *s)
{
	return __xstat64(1, p, (struct stat64 *)s);
}
static int call_lxstat(const char *p, struct stat *s) { return __lxstat(1, p, s); }
static int call_lxstat64(const char *p, struct stat *s)
{
	return __lxstat64(1, p, (struct stat64 *)s);
}
static int call_fxstatat(const char *p, struct stat *s)
{
	return __fxstatat(1, AT_FDCWD, p, s, 0);
}
static int call_fxstatat64(const char *p, struct stat *s)
{
	return __fxstatat64(1, AT_FDCWD, p, (struct stat64 *)s, 0);
}
static int call_statx(const char *p, struct stat *s)
{
	struct statx x;
	int result = statx(AT_FDCWD, p, 0, STATX_BASIC_STATS, &x);

	memset(s, 0, sizeof *s);
	s->st_mode = x.stx_mode;
	s->st_ino = x.stx_ino;
	s->st_size = x.stx_size;
	return result;
}
static int call_faccessat(const char *p, int mode) { return faccessat(AT_FDCWD, p, mode, 0); }
static int call_openat(const char *p, int flags) { return openat(AT_FDCWD, p, flags); }
static int call_openat64(const char *p, int flags) { return openat64(AT_FDCWD, p, flags); }
static int call_open(const char *p, int flags) { return open(p, flags); }
static int call_open64(const char *p, int flags) { return open64(p, flags); }
static int call_openat_2(const char *p, int flags) { return __openat_2(AT_FDCWD, p, flags); }
static int call_openat64_2(const char *p, int flags) { return __openat64_2(AT_FDCWD, p, flags); }

static void check_stat(stat_like call)
{
	struct stat s, kernel;

	errno = 4711;
	CHECK(call(NODE, &s) == 0);
	CHECK(S_ISCHR(s.st_mode) && (s.st_mode & 0666) == 0666);
	CHECK(call(FIRST, &s) == 0 && S_ISCHR(s.st_mode));
	CHECK(call("/dev/infiniband", &s) == 0 && S_ISDIR(s.st_mode));
	CHECK(call("/sys/class/infiniband", &s) == 0 && S_ISDIR(s.st_mode));
	CHECK(call(DIRECTORY, &s) == 0 && S_ISDIR(s.st_mode));
	CHECK(call(DIRECTORY "/", &s) == 0 && S_ISDIR(s.st_mode));
	CHECK(call(LID, &s) == 0 && s.st_mode == (S_IFREG | 0444) && s.st_size == 4);
	CHECK(errno == 4711);

	errno = 0;
	CHECK(call(NOTHING, &s) == -1 && errno == ENOENT);
	errno = 0;
	CHECK(call("/no/such/file", &s) == -1 && errno == ENOENT);
	errno = 0;
	CHECK(call("", &s) == -1 && errno == ENOENT);

	CHECK(call("/proc/self/exe", &s) == 0);
	CHECK(call("/etc/passwd", &s) == 0);
	CHECK(syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &kernel, 0) == 0);
	CHECK(s.st_ino == kernel.st_ino && s.st_mode == kernel.st_mode
	      && s.st_size == kernel.st_size);
}

/* lstat describes the link, stat its target: the shim must keep them apart. */
static void check_link(stat_like call, int follows)
{
	struct stat s;

	CHECK(call("/proc/self/exe", &s) == 0);
	CHECK(S_ISLNK(s.st_mode) == !follows);
}

static void check_access(access_like call)
{
	errno = 4711;
	CHECK(call(NODE, R_OK | W_OK) == 0);
	CHECK(call(FIRST, F_OK) == 0);
	CHECK(call("/dev/infiniband", R_OK | X_OK) == 0);
	CHECK(call(LID, F_OK) == 0 && call(LID, R_OK) == 0);
	CHECK(errno == 4711);
	CHECK(geteuid() == 0 || (call(LID, W_OK) == -1 && errno == EACCES));
	errno = 0;
	CHECK(call(LID, X_OK) == -1 && errno == EACCES);
	errno = 0;
	CHECK(call(NOTHING, F_OK) == -1 && errno == ENOENT);
	errno = 0;
	CHECK(call(LID, 0x4000) == call("/", 0x4000));
	CHECK(call("/etc/passwd", R_OK) == 0);
	errno = 0;
	CHECK(call("/no/such/file", F_OK) == -1 && errno == ENOENT);
}

static void check_open(open_like call)
{
	char text[64] = "";
	int fd;

	errno = 4711;
	fd = call(NODE, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(write(fd, "x", 1) == 1);
	close(fd);
	fd = call(LID, O_RDONLY);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == 0);
	CHECK(read(fd, text, sizeof text) == 4 && !strcmp(text, "0x1\n"));
	close(fd);
	fd = call(IBDEV, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	close(fd);
	CHECK(errno == 4711);
	CHECK(call(LID, O_RDWR) == -1 && errno == EACCES);
	CHECK(call(NOTHING, O_RDONLY) == -1 && errno == ENOENT);
	CHECK(call("/no/such/file", O_RDONLY) == -1 && errno == ENOENT);
	fd = call("/etc/passwd", O_RDONLY);
	CHECK(fd >= 0);
	close(fd);
}

/* The mode must be passed on with both flags that require one. */
static void check_mode(int (*call)(const char *, int, ...))
{
	char path[] = "/tmp/verbena-shim-XXXXXX";
	struct stat s;
	int fd = mkstemp(path);

	close(fd);
	unlink(path);
	umask(0);
	fd = call(path, O_CREAT | O_EXCL | O_WRONLY, 0641);
	CHECK(fd >= 0);
	CHECK(fstat(fd, &s) == 0 && (s.st_mode & 07777) == 0641);
	close(fd);
	unlink(path);
	fd = call("/tmp", O_TMPFILE | O_RDWR, 0614);
	/* Not every file system supports O_TMPFILE. */
	CHECK(fd >= 0 ? fstat(fd, &s) == 0 && (s.st_mode & 07777) == 0614 : errno == EOPNOTSUPP);
	close(fd);
}

static void check_mode_at(int (*call)(int, const char *, int, ...))
{
	char name[] = "verbena-shim-XXXXXX";
	struct stat s;
	int directory, fd;

	CHECK(chdir("/tmp") == 0);
	close(mkstemp(name));
	unlink(name);
	umask(0);
	directory = call(AT_FDCWD, "/tmp", O_RDONLY | O_DIRECTORY);
	fd = call(directory, name, O_CREAT | O_EXCL | O_WRONLY, 0641);
	CHECK(directory >= 0 && fd >= 0);
	CHECK(fstat(fd, &s) == 0 && (s.st_mode & 07777) == 0641);
	close(fd);
	unlinkat(directory, name, 0);
	fd = call(directory, ".", O_TMPFILE | O_RDWR, 0614);
	CHECK(fd >= 0 ? fstat(fd, &s) == 0 && (s.st_mode & 07777) == 0614 : errno == EOPNOTSUPP);
	close(fd);
	close(directory);
}

static void check_fopen(FILE *(*call)(const char *, const char *))
{
	char text[64] = "";
	FILE *file;

	errno = 4711;
	file = call(IBDEV, "re");
	CHECK(file && fgets(text, sizeof text, file) && !strcmp(text, "verbena0\n"));
	CHECK(errno == 4711);
	if (file)
		fclose(file);
	file = call(NODE, "r+");
	CHECK(file != NULL);
	if (file)
		fclose(file);
	CHECK(call(LID, "w") == NULL && errno == EACCES);
	CHECK(call(LID, "r+") == NULL && errno == EACCES);
	CHECK(call(NOTHING, "r") == NULL && errno == ENOENT);
	file = call("/etc/passwd", "r");
	CHECK(file && fgets(text, sizeof text, file));
	if (file)
		fclose(file);
}

static void check_opendir(void)
{
	DIR *stream = opendir("/proc/self");
	int names = 0;

	CHECK(stream && readdir(stream));
	closedir(stream);
	CHECK(opendir(LID) == NULL && errno == ENOTDIR);
	CHECK(opendir(NODE) == NULL && errno == ENOTDIR);
	CHECK(opendir(NOTHING) == NULL && errno == ENOENT);
	stream = opendir(PORTS);
	CHECK(stream && dirfd(stream) >= 0);
	while (readdir(stream))
		names++;
	CHECK(names == 5);
	/* Calls relative to the descriptor work too. */
	CHECK(faccessat(dirfd(stream), "1/lid", R_OK, 0) == 0);
	closedir(stream);
}

/* Variants of readlink. */
static ssize_t call_readlinkat(const char *p, char *b, size_t n) { return readlinkat(AT_FDCWD, p, b, n); }
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
static ssize_t call_readlink_chk(const char *p, char *b, size_t n) { return __readlink_chk(p, b, n, n); }
static ssize_t call_readlinkat_chk(const char *p, char *b, size_t n)
{
	return __readlinkat_chk(AT_FDCWD, p, b, n, n);
}

static void check_readlink(ssize_t (*call)(const char *, char *, size_t))
{
	char target[256] = "";

	CHECK(call(PORTS "/first", target, sizeof target) == 1 && target[0] == '1');
	CHECK(call(LID, target, sizeof target) == -1 && errno == EINVAL);
	CHECK(call(NOTHING, target, sizeof target) == -1 && errno == ENOENT);
	CHECK(call("/proc/self/exe", target, sizeof target) > 0 && target[0] == '/');
}

char *__realpath_chk(const char *, char *, size_t);
static char *call_realpath_chk(const char *p, char *b) { return __realpath_chk(p, b, PATH_MAX); }
static char *call_canonicalize(const char *p, char *b)
{
	char *same = canonicalize_file_name(p);

	if (!same)
		return NULL;
	strcpy(b, same);
	free(same);
	return b;
}

static void check_realpath(char *(*call)(const char *, char *))
{
	char path[PATH_MAX];

	CHECK(call(PORTS "/first/./lid", path) && !strcmp(path, LID));
	CHECK(call(PORTS "/..", path) && !strcmp(path, DIRECTORY));
	CHECK(call(NOTHING, path) == NULL && errno == ENOENT);
	CHECK(call("/usr/../etc/passwd", path) && !strcmp(path, "/etc/passwd"));
	CHECK(chdir(PORTS) == 0 && call("first", path) && !strcmp(path, PORTS "/1"));
}

static void check_getcwd(void)
{
	char path[PATH_MAX];
	struct stat s;

	CHECK(chdir(NOTHING) == -1 && errno == ENOENT);
	CHECK(chdir(LID) == -1 && errno == ENOTDIR);
	CHECK(chdir(PORTS) == 0 && stat("1/lid", &s) == 0);
	CHECK(getcwd(path, sizeof path) && !strcmp(path, PORTS));
	CHECK(getcwd(path, 3) == NULL && errno == ERANGE);
	CHECK(chdir("/etc") == 0 && getcwd(path, sizeof path) && !strcmp(path, "/etc"));
}

static int call_statfs(const char *p) { struct statfs s; return statfs(p, &s); }
static int call_statfs64(const char *p) { struct statfs64 s; return statfs64(p, &s); }
static int call_statvfs(const char *p) { struct statvfs s; return statvfs(p, &s); }
static int call_statvfs64(const char *p) { struct statvfs64 s; return statvfs64(p, &s); }
static int call_listxattr(const char *p) { return listxattr(p, NULL, 0) >= 0 || errno == ENOTSUP ? 0 : -1; }
static int call_llistxattr(const char *p) { return llistxattr(p, NULL, 0) >= 0 || errno == ENOTSUP ? 0 : -1; }
static int no_attribute(ssize_t result) { return result >= 0 || errno == ENODATA || errno == ENOTSUP ? 0 : -1; }
static int call_getxattr(const char *p) { return no_attribute(getxattr(p, "user.x", NULL, 0)); }
static int call_lgetxattr(const char *p) { return no_attribute(lgetxattr(p, "user.x", NULL, 0)); }

static void check_there(int (*call)(const char *))
{
	CHECK(call(LID) == 0 && call(DIRECTORY) == 0 && call("/etc/passwd") == 0);
	CHECK(call(NOTHING) == -1 && errno == ENOENT);
}

static int call_scandir64(const char *p, struct dirent ***n)
{
	return scandir64(p, (struct dirent64 ***)n, NULL, NULL);
}
static int call_scandir(const char *p, struct dirent ***n) { return scandir(p, n, NULL, NULL); }
static int call_scandirat(const char *p, struct dirent ***n) { return scandirat(AT_FDCWD, p, n, NULL, NULL); }
static int call_scandirat64(const char *p, struct dirent ***n)
{
	return scandirat64(AT_FDCWD, p, (struct dirent64 ***)n, NULL, NULL);
}

static void check_scandir(int (*call)(const char *, struct dirent ***))
{
	struct dirent **names;

	CHECK(call(PORTS, &names) == 5);
	CHECK(call(NOTHING, &names) == -1 && errno == ENOENT);
	CHECK(call("/proc/self", &names) > 10);
}

static int call_glob64(const char *p, int f, glob_t *g) { return glob64(p, f, NULL, (glob64_t *)g); }
static int call_glob(const char *p, int f, glob_t *g) { return glob(p, f, NULL, g); }

static void check_glob(int (*call)(const char *, int, glob_t *))
{
	glob_t found;

	CHECK(call("/sys/class/infiniband/*/ports/[12]/lid", 0, &found) == 0 && found.gl_pathc == 2);
	CHECK(!strcmp(found.gl_pathv[0], LID));
	CHECK(call("/etc/passwd*", GLOB_APPEND, &found) == 0 && found.gl_pathc > 2);
	CHECK(!strcmp(found.gl_pathv[0], LID) && !strcmp(found.gl_pathv[2], "/etc/passwd"));
	CHECK(call(NOTHING "*", 0, &found) == GLOB_NOMATCH);
}

static int seen, last_base;

static int visit_at(const char *path, const struct stat *s, int kind, struct FTW *at)
{
	(void)s;
	(void)kind;
	CHECK(!strncmp(path, PORTS, sizeof PORTS - 1) && path[at->base - 1] == '/');
	last_base = at->base;
	return seen++ < 0;
}

static int visit_simply(const char *path, const struct stat *s, int kind)
{
	(void)s;
	(void)kind;
	CHECK(!strncmp(path, PORTS, sizeof PORTS - 1));
	return seen++ < 0;
}

static int call_nftw(void) { return nftw(PORTS, visit_at, 4, FTW_PHYS); }
static int call_nftw64(void) { return nftw64(PORTS, (void *)visit_at, 4, FTW_PHYS); }
static int call_ftw(void) { return ftw(PORTS, visit_simply, 4); }
static int call_ftw64(void) { return ftw64(PORTS, (void *)visit_simply, 4); }

static void check_walk(int (*call)(void), int entries)
{
	CHECK(call() == 0 && seen == entries);
}

static void check_inotify(void)
{
	int queue = inotify_init();

	CHECK(inotify_add_watch(queue, LID, IN_MODIFY) == -1 && errno == EACCES);
	CHECK(inotify_add_watch(queue, "/etc/passwd", IN_MODIFY) >= 0);
}

static void check_write(void)
{
	int fd = open(MANAGER, O_RDWR | O_CLOEXEC), ends[2];

	CHECK(fd >= 0);
	CHECK(write(fd, "command", 7) == 7);
	CHECK(write(fd, "another", 7) == -1 && errno == ENOSYS);
	CHECK(pipe(ends) == 0 && write(ends[1], "another", 7) == 7);
	CHECK(write(-1, "command", 7) == -1 && errno == EBADF);
	close(fd);
}

static void check_close(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY);
	int *closed = library ? dlsym(library, "verbena_cm_closed") : NULL;
	int fd = open(MANAGER, O_RDWR), before = closed ? *closed : -1, ends[2];

	CHECK(close(fd) == 0);
	CHECK(closed && *closed == before + 1);
	CHECK(close(fd) == -1 && errno == EBADF);
	CHECK(closed && *closed == before + 1);
	/* Another file with the same number is no channel. */
	CHECK(pipe(ends) == 0 && (ends[0] == fd || ends[1] == fd));
	CHECK(write(ends[1], "another", 7) == 7 && close(fd) == 0);
	CHECK(closed && *closed == before + 1);
}

/* Returns the library's variable of this name, or -1. */
static int told(const char *name)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY);
	int *number = library ? dlsym(library, name) : NULL;

	return number ? *number : -1;
}

static int call_dup(int fd, int to) { (void)to; return dup(fd); }
static int call_dup2(int fd, int to) { return dup2(fd, to); }
static int call_dup3(int fd, int to) { return dup3(fd, to, O_CLOEXEC); }
static int call_fcntl(int fd, int to) { return fcntl(fd, F_DUPFD, to); }
static int call_fcntl64(int fd, int to) { return fcntl64(fd, F_DUPFD_CLOEXEC, to); }

/* A copy accepts commands too; a number that was overwritten no longer does. */
static void check_copies(int (*call)(int, int), int replaces)
{
	int fd = open(MANAGER, O_RDWR | O_CLOEXEC), other = open(MANAGER, O_RDWR | O_CLOEXEC), ends[2], copy, before;

	copy = call(fd, 50);
	CHECK(copy >= 0 && copy != fd && told("verbena_cm_copy") == copy);
	CHECK(write(copy, "another", 7) == -1 && errno == ENOSYS);
	before = told("verbena_cm_closed");
	CHECK(close(copy) == 0 && told("verbena_cm_closed") == before + 1);
	CHECK(pipe(ends) == 0);
	copy = call(ends[1], other);
	CHECK(copy >= 0 && write(copy, "another", 7) == 7);
	CHECK(told("verbena_cm_closed") == before + 1 + replaces);
	CHECK(call(-1, 51) == -1 && errno == EBADF);
	close(copy);
	close(fd);
	/* The arguments of other commands are passed on. */
	CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && (fcntl64(ends[0], F_GETFL) & O_NONBLOCK));
}

/* Requests of other files are passed on with their argument, and their errors come back. */
static void check_ioctl(void)
{
	int ends[2], ready = 0;

	CHECK(pipe(ends) == 0 && write(ends[1], "seven b", 7) == 7);
	CHECK(ioctl(ends[0], FIONREAD, &ready) == 0 && ready == 7);
	CHECK(ioctl(ends[0], FIOCLEX) == 0 && (fcntl(ends[0], F_GETFD) & FD_CLOEXEC));
	CHECK(ioctl(ends[0], 0xc01c1b01, &ready) == -1 && errno == ENOTTY);
	CHECK(ioctl(-1, FIONREAD, &ready) == -1 && errno == EBADF);
}

static void check_dup2_of_itself(void)
{
	int fd = open(MANAGER, O_RDWR | O_CLOEXEC), before = told("verbena_cm_closed");

	CHECK(dup2(fd, fd) == fd && told("verbena_cm_closed") == before);
	CHECK(write(fd, "command", 7) == 7);
	close(fd);
}

/* A descriptor is a channel exactly if its peer has a channel's name. */
static void check_recvmsg(void)
{
	int carrier[2], ends[2], fds[2] = { -1, -1 };
	union { struct cmsghdr header; char space[CMSG_SPACE(sizeof fds)]; } control;
	char byte = 1;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "" };

	snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "verbena-cm/test-%d", getpid());
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, carrier) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	CHECK(bind(ends[1], (struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1)) == 0);
	memset(&control, 0, sizeof control);
	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fds), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), (int[]){ carrier[0], ends[0] }, sizeof fds);
	CHECK(sendmsg(carrier[0], &message, 0) == 1);
	CHECK(recvmsg(carrier[1], &message, 0) == 1);
	memcpy(fds, CMSG_DATA(&control.header), sizeof fds);
	CHECK(told("verbena_cm_copy") == fds[1]);
	CHECK(write(fds[1], "another", 7) == -1 && errno == ENOSYS);
	CHECK(write(fds[0], "another", 7) == 7);
	CHECK(recvmsg(-1, &message, 0) == -1 && errno == EBADF);
}

ssize_t __read_chk(int, void *, size_t, size_t);
static ssize_t call_read_chk(int fd, void *b, size_t n) { return __read_chk(fd, b, n, n); }

/* A read that is shorter than an event consumes nothing. */
static void check_read(ssize_t (*call)(int, void *, size_t))
{
	void (*event_descriptor)(int, size_t) = (void (*)(int, size_t))dlsym(RTLD_DEFAULT, "verbena_event_descriptor");
	char bytes[16];

	CHECK(event_descriptor != NULL);
	for (size_t record = 8; record <= 16; record += 8) {
		int ends[2], copy;
		CHECK(pipe2(ends, O_DIRECT) == 0);
		event_descriptor(ends[0], record);
		copy = dup(ends[0]);
		CHECK(write(ends[1], "0123456789abcdef", record) == (ssize_t)record);
		errno = 0;
		CHECK(call(ends[0], bytes, record - 1) == -1 && errno == EINVAL);
		CHECK(call(copy, bytes, 1) == -1 && errno == EINVAL);
		CHECK(call(copy, bytes, record) == (ssize_t)record && !memcmp(bytes, "0123456789abcdef", record));
		CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
		CHECK(call(ends[0], bytes, 1) == -1 && errno == EAGAIN);
		/* Another file with the same number. */
		CHECK(syscall(SYS_close, ends[0]) == 0 && open("/etc/passwd", O_RDONLY) == ends[0]);
		CHECK(call(ends[0], bytes, 1) == 1);
		close(ends[0]);
	}
	CHECK(call(-1, bytes, 1) == -1 && errno == EBADF);
}

static int waits[2], carrier[2], locked;
static int cancelled;

static void note(void *unused)
{
	(void)unused;
	cancelled++;
}

static void *wait_in_read(void *unused)
{
	char byte;

	pthread_cleanup_push(note, NULL);
	CHECK(read(waits[0], &byte, 1) != 0);
	pthread_cleanup_pop(0);
	return unused;
}

static void *wait_in_recvmsg(void *unused)
{
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

	pthread_cleanup_push(note, NULL);
	CHECK(recvmsg(carrier[0], &message, 0) != 0);
	pthread_cleanup_pop(0);
	return unused;
}

static void *wait_in_fcntl(void *unused)
{
	struct flock lock = { .l_type = F_WRLCK };

	pthread_cleanup_push(note, NULL);
	CHECK(fcntl(locked, F_OFD_SETLKW, &lock) != 0);
	pthread_cleanup_pop(0);
	return unused;
}

/* A thread that blocks in a call is cancelled as without the shim. */
static void check_cancel(void)
{
	static void *(*const calls[])(void *) = { wait_in_read, wait_in_recvmsg, wait_in_fcntl };
	char path[] = "/tmp/verbena-shim-XXXXXX";
	struct flock lock = { .l_type = F_WRLCK };
	int holder = mkstemp(path);

	locked = open(path, O_RDWR);
	unlink(path);
	CHECK(fcntl(holder, F_OFD_SETLK, &lock) == 0);
	CHECK(pipe(waits) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, carrier) == 0);
	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		void *result;
		CHECK(pthread_create(&thread, NULL, calls[i], NULL) == 0);
		usleep(20000);
		CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
		CHECK(result == PTHREAD_CANCELED && cancelled == i + 1);
	}
}

typedef int (*fstat_like)(int, struct stat *);

static int call_fstat64(int fd, struct stat *s) { return fstat64(fd, (struct stat64 *)s); }
static int call_fxstat(int fd, struct stat *s) { return __fxstat(1, fd, s); }
static int call_fxstat64(int fd, struct stat *s)
{
	return __fxstat64(1, fd, (struct stat64 *)s);
}

static void check_fstat(fstat_like call)
{
	int fd = open(MANAGER, O_RDWR | O_CLOEXEC), ends[2];
	struct stat s;

	CHECK(call(fd, &s) == 0 && S_ISCHR(s.st_mode));
	CHECK(pipe(ends) == 0 && call(ends[1], &s) == 0 && S_ISFIFO(s.st_mode));
	CHECK(call(-1, &s) == -1 && errno == EBADF);
	close(fd);
}

static int early = 1;

/* Runs before every other constructor of the program. */
__attribute__((constructor(101))) static void before_constructors(void)
{
	struct stat s;

	early = stat(NODE, &s) == 0 && S_ISCHR(s.st_mode) && access(NODE, R_OK | W_OK) == 0
		&& stat("/etc/passwd", &s) == 0;
}

static void check_start_and_fork(void)
{
	int status = -1;

	CHECK(early);
	if (fork() == 0) {
		check_stat(stat);
		check_open(call_open);
		exit(wrong);
	}
	wait(&status);
	CHECK(status == 0);
}

/* The pages reach the pipe, and the adapter can query that. */
static void check_vmsplice(void)
{
	int (*has_spliced)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "verbena_has_spliced");
	char bytes[] = "spliced", read_back[sizeof bytes] = "";
	struct iovec part = { bytes, sizeof bytes };
	int ends[2];

	CHECK(has_spliced && !has_spliced());
	CHECK(pipe(ends) == 0);
	CHECK(vmsplice(ends[1], &part, 1, 0) == sizeof bytes);
	CHECK(read(ends[0], read_back, sizeof read_back) == sizeof bytes && !strcmp(read_back, bytes));
	CHECK(has_spliced && has_spliced());
}

/* syscall(2), for each kind of call. */
#define RAW(call, ...) static int raw_##call(const char *p __VA_OPT__(,) __VA_ARGS__)
RAW(newfstatat, struct stat *s) { return (int)syscall(SYS_newfstatat, AT_FDCWD, p, s, 0); }
RAW(faccessat, int mode) { return (int)syscall(SYS_faccessat, AT_FDCWD, p, mode); }
RAW(faccessat2, int mode) { return (int)syscall(SYS_faccessat2, AT_FDCWD, p, mode, 0); }
RAW(openat, int flags) { return (int)syscall(SYS_openat, AT_FDCWD, p, flags, 0); }
RAW(statfs) { struct statfs s; return (int)syscall(SYS_statfs, p, &s); }
RAW(listxattr) { return (int)syscall(SYS_listxattr, p, NULL, 0); }
RAW(llistxattr) { return (int)syscall(SYS_llistxattr, p, NULL, 0); }
RAW(getxattr) { return no_attribute((int)syscall(SYS_getxattr, p, "user.none", NULL, 0)); }
RAW(lgetxattr) { return no_attribute((int)syscall(SYS_lgetxattr, p, "user.none", NULL, 0)); }
static ssize_t raw_readlinkat(const char *p, char *b, size_t n) { return syscall(SYS_readlinkat, AT_FDCWD, p, b, n); }
static int raw_statx(const char *p, struct stat *s)
{
	struct statx x;
	int result = (int)syscall(SYS_statx, AT_FDCWD, p, 0, STATX_BASIC_STATS, &x);

	memset(s, 0, sizeof *s);
	s->st_mode = x.stx_mode;
	s->st_ino = x.stx_ino;
	s->st_size = x.stx_size;
	return result;
}
#ifdef SYS_open
RAW(stat, struct stat *s) { return (int)syscall(SYS_stat, p, s); }
RAW(lstat, struct stat *s) { return (int)syscall(SYS_lstat, p, s); }
RAW(access, int mode) { return (int)syscall(SYS_access, p, mode); }
RAW(open, int flags) { return (int)syscall(SYS_open, p, flags, 0); }
static ssize_t raw_readlink(const char *p, char *b, size_t n) { return syscall(SYS_readlink, p, b, n); }
#endif

static int raw_open_create(const char *p, int flags, ...)
{
	va_list arguments;
	unsigned int mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, unsigned int);
	va_end(arguments);
	return (int)syscall(SYS_openat, AT_FDCWD, p, flags, mode);
}

static void check_syscall(void)
{
	char here[PATH_MAX];
	int queue = inotify_init1(0);

	check_stat(raw_newfstatat);
	check_link(raw_newfstatat, 1);
	check_stat(raw_statx);
	check_access(raw_faccessat);
	check_access(raw_faccessat2);
	check_open(raw_openat);
	check_mode(raw_open_create);
	check_readlink(raw_readlinkat);
	check_there(raw_statfs);
	check_there(raw_getxattr);
	check_there(raw_lgetxattr);
	check_there(raw_listxattr);
	check_there(raw_llistxattr);
#ifdef SYS_open
	check_stat(raw_stat);
	check_link(raw_stat, 1);
	check_stat(raw_lstat);
	check_link(raw_lstat, 0);
	check_access(raw_access);
	check_open(raw_open);
	check_readlink(raw_readlink);
#endif
	CHECK(syscall(SYS_inotify_add_watch, queue, LID, IN_MODIFY) == -1 && errno == EACCES);
	CHECK(syscall(SYS_inotify_add_watch, queue, "/tmp", IN_CREATE) >= 0);
	close(queue);
	CHECK(syscall(SYS_chdir, PORTS) == 0);
	CHECK(syscall(SYS_getcwd, here, sizeof here) == (long)sizeof PORTS && !strcmp(here, PORTS));
	CHECK(syscall(SYS_getcwd, here, 4) == -1 && errno == ERANGE);
	CHECK(syscall(SYS_getcwd, NULL, 0) == -1);
	CHECK(raw_openat("1/lid", O_RDONLY) >= 0);
	/* All six arguments are passed on. */
	CHECK((void *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	CHECK(syscall(SYS_openat, AT_FDCWD, NULL, O_RDONLY) == -1 && errno == EFAULT);
	CHECK(syscall(-1) == -1 && errno == ENOSYS);
}

/* openat2(2): by syscall, and by glibc's function (since 2.43). */
typedef int (*openat2_like)(int, const char *, const struct open_how *, size_t);

static int raw_openat2(int directory, const char *p, const struct open_how *how, size_t size)
{
	return (int)syscall(SYS_openat2, directory, p, how, size);
}

static openat2_like openat2_call;

static int call_openat2(const char *p, int flags)
{
	struct open_how how = { .flags = (unsigned int)flags };

	return openat2_call(AT_FDCWD, p, &how, sizeof how);
}

static void check_openat2(openat2_like call)
{
	struct open_how how = { .flags = O_RDONLY, .resolve = RESOLVE_IN_ROOT };

	openat2_call = call;
	check_open(call_openat2);
	CHECK(call(AT_FDCWD, LID, &how, 8) == -1 && errno == EINVAL);
	CHECK(call(AT_FDCWD, LID, NULL, sizeof how) == -1 && errno == EFAULT);
	/* Relative to the descriptor as the root. */
	CHECK(chdir("/tmp") == 0);
	CHECK(call(AT_FDCWD, LID, &how, sizeof how) == -1 && errno == ENOENT);
	how.resolve = RESOLVE_BENEATH;
	CHECK(call(AT_FDCWD, LID, &how, sizeof how) == -1 && errno == EXDEV);
	how.resolve = 0;
	how.flags = O_CREAT | O_RDONLY;
	CHECK(call(AT_FDCWD, LID, &how, sizeof how) == -1 && errno == EACCES);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; stat_like call; int link; } stats[] = {
		{ "stat", stat }, { "stat64", call_stat64 }, { "lstat", lstat, 1 },
		{ "lstat64", call_lstat64, 1 }, { "fstatat", call_fstatat },
		{ "fstatat64", call_fstatat64 }, { "statx", call_statx },
		{ "__xstat", call_xstat }, { "__xstat64", call_xstat64 },
		{ "__lxstat", call_lxstat, 1 }, { "__lxstat64", call_lxstat64, 1 },
		{ "__fxstatat", call_fxstatat }, { "__fxstatat64", call_fxstatat64 },
	};
	static const struct { const char *name; access_like call; } accesses[] = {
		{ "access", access }, { "eaccess", eaccess }, { "euidaccess", euidaccess },
		{ "faccessat", call_faccessat },
	};
	static const struct { const char *name; open_like call; } opens[] = {
		{ "open", call_open }, { "open64", call_open64 }, { "openat", call_openat },
		{ "openat64", call_openat64 }, { "__open_2", __open_2 },
		{ "__open64_2", __open64_2 }, { "__openat_2", call_openat_2 },
		{ "__openat64_2", call_openat64_2 },
	};
	static const struct { const char *name; ssize_t (*call)(const char *, char *, size_t); } links[] = {
		{ "readlink", readlink }, { "readlinkat", call_readlinkat },
		{ "__readlink_chk", call_readlink_chk }, { "__readlinkat_chk", call_readlinkat_chk },
	};
	static const struct { const char *name; char *(*call)(const char *, char *); } resolvers[] = {
		{ "realpath", realpath }, { "__realpath_chk", call_realpath_chk },
		{ "canonicalize_file_name", call_canonicalize },
	};
	static const struct { const char *name; int (*call)(const char *); } there[] = {
		{ "statfs", call_statfs }, { "statfs64", call_statfs64 }, { "statvfs", call_statvfs },
		{ "statvfs64", call_statvfs64 }, { "getxattr", call_getxattr },
		{ "lgetxattr", call_lgetxattr }, { "listxattr", call_listxattr },
		{ "llistxattr", call_llistxattr },
	};
	static const struct { const char *name; int (*call)(const char *, struct dirent ***); } scans[] = {
		{ "scandir", call_scandir }, { "scandir64", call_scandir64 },
		{ "scandirat", call_scandirat }, { "scandirat64", call_scandirat64 },
	};
	/* ftw follows the link, and may count its target again under its own name. */
	static const struct { const char *name; int (*call)(void); int entries; } walks[] = {
		{ "nftw", call_nftw, 6 }, { "nftw64", call_nftw64, 6 },
		{ "ftw", call_ftw, 5 }, { "ftw64", call_ftw64, 5 },
	};
	static const struct { const char *name; int (*call)(int, int); int replaces; } copiers[] = {
		{ "dup", call_dup }, { "dup2", call_dup2, 1 }, { "dup3", call_dup3, 1 },
		{ "fcntl", call_fcntl }, { "fcntl64", call_fcntl64 },
	};
	const char *name = argc == 2 ? argv[1] : "";
	int ran = 0;

	for (size_t i = 0; i < sizeof stats / sizeof *stats; i++)
		if (!strcmp(name, stats[i].name)) {
			check_stat(stats[i].call);
			check_link(stats[i].call, !stats[i].link);
			ran++;
		}
	for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++)
		if (!strcmp(name, accesses[i].name))
			check_access(accesses[i].call), ran++;
	for (size_t i = 0; i < sizeof opens / sizeof *opens; i++)
		if (!strcmp(name, opens[i].name))
			check_open(opens[i].call), ran++;
	if (!strcmp(name, "open"))
		check_mode(open);
	if (!strcmp(name, "open64"))
		check_mode(open64);
	if (!strcmp(name, "openat"))
		check_mode_at(openat);
	if (!strcmp(name, "openat64"))
		check_mode_at(openat64);
	if (!strcmp(name, "syscall"))
		check_syscall(), ran++;
	if (!strcmp(name, "openat2")) {
		check_openat2(raw_openat2);
		check_openat2((openat2_like)dlsym(RTLD_DEFAULT, "openat2"));
		ran++;
	}
	if (!strcmp(name, "fopen"))
		check_fopen(fopen), ran++;
	if (!strcmp(name, "fopen64"))
		check_fopen(fopen64), ran++;
	if (!strcmp(name, "start-and-fork"))
		check_start_and_fork(), ran++;
	if (!strcmp(name, "opendir"))
		check_opendir(), ran++;
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		if (!strcmp(name, links[i].name))
			check_readlink(links[i].call), ran++;
	for (size_t i = 0; i < sizeof resolvers / sizeof *resolvers; i++)
		if (!strcmp(name, resolvers[i].name))
			check_realpath(resolvers[i].call), ran++;
	for (size_t i = 0; i < sizeof there / sizeof *there; i++)
		if (!strcmp(name, there[i].name))
			check_there(there[i].call), ran++;
	for (size_t i = 0; i < sizeof scans / sizeof *scans; i++)
		if (!strcmp(name, scans[i].name))
			check_scandir(scans[i].call), ran++;
	for (size_t i = 0; i < sizeof walks / sizeof *walks; i++)
		if (!strcmp(name, walks[i].name))
			check_walk(walks[i].call, walks[i].entries), ran++;
	if (!strcmp(name, "glob"))
		check_glob(call_glob), ran++;
	if (!strcmp(name, "glob64"))
		check_glob(call_glob64), ran++;
	if (!strcmp(name, "chdir") || !strcmp(name, "getcwd"))
		check_getcwd(), ran++;
	if (!strcmp(name, "inotify_add_watch"))
		check_inotify(), ran++;
	for (size_t i = 0; i < sizeof copiers / sizeof *copiers; i++)
		if (!strcmp(name, copiers[i].name))
			check_copies(copiers[i].call, copiers[i].replaces), ran++;
	if (!strcmp(name, "dup2"))
		check_dup2_of_itself();
	if (!strcmp(name, "cancel"))
		check_cancel(), ran++;
	if (!strcmp(name, "ioctl"))
		check_ioctl(), ran++;
	if (!strcmp(name, "recvmsg"))
		check_recvmsg(), ran++;
	if (!strcmp(name, "read") || !strcmp(name, "verbena_event_descriptor"))
		check_read(read), ran++;
	if (!strcmp(name, "__read_chk"))
		check_read(call_read_chk), ran++;
	if (!strcmp(name, "write"))
		check_write(), ran++;
	if (!strcmp(name, "close"))
		check_close(), ran++;
	if (!strcmp(name, "vmsplice") || !strcmp(name, "verbena_has_spliced"))
		check_vmsplice(), ran++;
	if (!strcmp(name, "fstat"))
		check_fstat(fstat), ran++;
	if (!strcmp(name, "fstat64"))
		check_fstat(call_fstat64), ran++;
	if (!strcmp(name, "__fxstat"))
		check_fstat(call_fxstat), ran++;
	if (!strcmp(name, "__fxstat64"))
		check_fstat(call_fxstat64), ran++;
	if (ran != 1)
		printf("no check is called '%s'\n", name);
	return wrong || ran != 1;
}
