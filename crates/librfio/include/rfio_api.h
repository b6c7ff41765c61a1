/*
 * RFIO's C interface: files on RFIO servers, and local ones, by the same calls.
 *
 * A path is HOST:/PATH or rfio://HOST[:PORT]/PATH; anything else is local. Every function is safe to
 * call from several threads; calls on one descriptor are carried out one after the other. The
 * environment (RFIO_USER, RFIO_SECRETS, RFIO_TLS_CA, RFIO_TLS_CERTIFICATE, RFIO_TLS_KEY, RFIO_FABRIC,
 * RFIO_TIMEOUT, RFIO_RETRY, RFIO_PORT) says how to connect.
 *
 * Where the system's function returns -1 and sets errno, so does the one here; what the server said is
 * in rfio_errno, what went wrong between here and there in serrno.
 */
#ifndef RFIO_API_H
#define RFIO_API_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* __off64_t and the incomplete struct stat64 need no feature macro; who looks into a struct stat64
 * compiles with _GNU_SOURCE or _LARGEFILE64_SOURCE, as C++ compilers do by themselves. */
struct stat64;
struct dirent64;

#ifdef __cplusplus
extern "C" {
#endif

struct rfstatfs {
	long totblks;  /* blocks in all */
	long freeblks; /* blocks that are free */
	long bsize;    /* bytes of a block */
	long totnods;  /* inodes in all */
	long freenods; /* inodes that are free */
};

struct iovec64 {
	__off64_t iov_base; /* where in the file */
	int iov_len;      /* bytes */
};

/* What a file is, in fields of the same size and place on every platform. Times are nanoseconds since 1970,
 * blocks have 512 bytes. */
struct rfio_attributes {
	uint64_t device;
	uint64_t inode;
	uint64_t links;
	uint64_t size;
	uint64_t blocks;
	int64_t accessed;
	int64_t modified;
	int64_t changed;
	uint32_t mode;
	uint32_t owner;
	uint32_t group;
	uint32_t reserved;
};

/* Of this thread. */
int *C__serrno(void);
int *C__rfio_errno(void);
#define serrno (*C__serrno())
#define rfio_errno (*C__rfio_errno())

#define SEBASEOFF 1000
#define SENOSHOST 1001
#define SETIMEDOUT 1004
#define SENAMETOOLONG 1008
#define SEBADVERSION 1010
#define SEINTERNAL 1015
#define SECONNDROP 1016
#define SECOMERR 1018
#define SEOPNOTSUP 1022
#define SECHECKSUM 1037

/*
 * rfiosetopt: option and values of RFIO_READOPT. With RFIO_READAHEAD and RFIO_STREAM, rfio_read of a file that is open
 * for reading alone goes on where it was after its connection was lost (the server was started anew): it connects again,
 * after pauses that grow from 0.1 s to 5 s, for RFIO_RETRY seconds without success at most (environment; 30 if it is not
 * set, 0 does not). If the server has another file under the name by then, that is ESTALE.
 */
#define RFIO_READOPT 1
#define RFIO_READBUF 1
#define RFIO_READAHEAD 2
#define RFIO_STREAM 16

int rfio_open(const char *path, int flags, ...);
int rfio_open64(const char *path, int flags, ...);
int rfio_close(int descriptor);
int rfio_read(int descriptor, void *buffer, int size);
int rfio_write(int descriptor, const void *buffer, int size);
ssize_t rfio_read64(int descriptor, void *buffer, size_t size);
ssize_t rfio_write64(int descriptor, const void *buffer, size_t size);
off_t rfio_lseek(int descriptor, off_t offset, int whence);
__off64_t rfio_lseek64(int descriptor, __off64_t offset, int whence);
int rfio_preseek(int descriptor, struct iovec *ranges, int count);
int rfio_preseek64(int descriptor, struct iovec64 *ranges, int count);
int rfio_fstat(int descriptor, struct stat *status);
int rfio_fstat64(int descriptor, struct stat64 *status);
int rfio_fchmod(int descriptor, int mode);
int rfio_fchown(int descriptor, int owner, int group);
int rfio_lockf(int descriptor, int operation, long size);

int rfio_access(const char *path, int mode);
int rfio_chdir(const char *path);
int rfio_chmod(const char *path, int mode);
int rfio_chown(const char *path, int owner, int group);
int rfio_mkdir(const char *path, int mode);
int rfio_rmdir(const char *path);
int rfio_rename(const char *from, const char *to);
int rfio_unlink(const char *path);
int rfio_symlink(const char *target, const char *path);
int rfio_readlink(const char *path, char *buffer, int size);
int rfio_stat(const char *path, struct stat *status);
int rfio_stat64(const char *path, struct stat64 *status);
int rfio_lstat(const char *path, struct stat *status);
int rfio_lstat64(const char *path, struct stat64 *status);
int rfio_statfs(const char *path, struct rfstatfs *status);

/* The same over a connection that is kept; every call here keeps its connection, so these are the
 * functions above by other names. rfio_end and its like close what is kept. */
int rfio_mstat(const char *path, struct stat *status);
int rfio_mstat64(const char *path, struct stat64 *status);
int rfio_munlink(const char *path);
int rfio_msymlink(const char *target, const char *path);
int rfio_end(void);
int rfio_unend(void);
int rfio_symend(void);

FILE *rfio_fopen(const char *path, const char *mode);
FILE *rfio_fopen64(const char *path, const char *mode);
int rfio_fclose(FILE *file);
size_t rfio_fread(void *buffer, size_t size, size_t count, FILE *file);
size_t rfio_fwrite(const void *buffer, size_t size, size_t count, FILE *file);
int rfio_fseek(FILE *file, long offset, int whence);
int rfio_fseeko64(FILE *file, __off64_t offset, int whence);
long rfio_ftell(FILE *file);
__off64_t rfio_ftello64(FILE *file);
int rfio_feof(FILE *file);
int rfio_ferror(FILE *file);
int rfio_fflush(FILE *file);
int rfio_fileno(FILE *file);
int rfio_getc(FILE *file);

DIR *rfio_opendir(const char *path);
struct dirent *rfio_readdir(DIR *directory);
struct dirent64 *rfio_readdir64(DIR *directory);
void rfio_rewinddir(DIR *directory);
int rfio_closedir(DIR *directory);

/*
 * Beyond the classic interface.
 *
 * Reads and writes at an offset leave the position alone. A read is answered from what rfio_preseek64
 * fetched, if it lies there, and is a request otherwise, whatever RFIO_READOPT says.
 */
ssize_t rfio_pread64(int descriptor, void *buffer, size_t size, __off64_t offset);
ssize_t rfio_pwrite64(int descriptor, const void *buffer, size_t size, __off64_t offset);
int rfio_ftruncate64(int descriptor, __off64_t size);
/* Copies part of an open file to another one: how many bytes, perhaps fewer, and 0 only at the end. On one server no data
 * move here; files that are not in one place, or a server that is too old, are EXDEV. */
ssize_t rfio_copy_range(int from, __off64_t offset, int to, __off64_t at, size_t size);
int rfio_fsync(int descriptor);
/* The CRC32C of the whole file. A server computes it where the file is; a local file is EOPNOTSUPP. */
int rfio_checksum(int descriptor, uint32_t *crc32c);
/* What a path is, links followed, and what an open file is. */
int rfio_examine(const char *path, struct rfio_attributes *attributes);
int rfio_fexamine(int descriptor, struct rfio_attributes *attributes);
/* The next name of a directory and what it is, links not followed, with no further request: 1, or 0 behind
 * the last. A name that does not fit is ERANGE. */
int rfio_readentry(DIR *directory, char *name, size_t room, struct rfio_attributes *attributes);

/*
 * Requests under way.
 *
 * A request is begun here and finished there, in any order, by any thread, and hundreds may be under way at once: those of
 * all files of a server share one connection. Beginning one does not wait, except the first of a descriptor, which opens the
 * file once more, by its name (ESTALE if another file has that by then; not on a descriptor that was opened only to create
 * a file whose name is gone). From begin to finish the buffer belongs to the library. Every request is finished exactly once.
 *
 * Requests of one descriptor are carried out as if one after the other, as far as one of them writes; those of different
 * descriptors, and calls of the classic interface, are in no order with them: finish one before the other begins. What a
 * finished request has written is seen by all that comes later. On a local file a request is done when it has begun.
 */
typedef struct rfio_request rfio_request;

/* NULL with errno and serrno set if nothing was begun. */
rfio_request *rfio_begin_pread(int descriptor, void *buffer, size_t size, __off64_t offset);
rfio_request *rfio_begin_pwrite(int descriptor, const void *buffer, size_t size, __off64_t offset);
/* Ranges in any order, with few requests to the server. Each has its place in the buffer, behind the whole length of those
 * before it; lengths[i] says how much of it was read, which is less only where the file ends. */
rfio_request *rfio_begin_preadv(int descriptor, const struct iovec64 *ranges, int count, void *buffer, size_t size,
                                int *lengths);
/* 1 if the request is done, 0 if not; never waits. */
int rfio_request_done(rfio_request *request);
/* Waits until one of the requests is done, at most so many milliseconds (for ever if they are negative): its index, or
 * count if the time is over. Null pointers are passed over. */
int rfio_request_wait(rfio_request *const *requests, int count, int milliseconds);
/* Takes a request back. It is finished all the same: with ECANCELED, or as ever if it was too late. What writes and was sent
 * is carried out. */
int rfio_request_cancel(rfio_request *request);
/* A descriptor for poll(2): readable when rfio_request_done may have news of this request or another one of its server. Where
 * several threads wait, another may have taken them: poll with a time limit then. */
int rfio_request_events(rfio_request *request);
/* Waits, says what came of it as pread(2) and pwrite(2) do (for ranges, the bytes of all of them), and ends the request. */
ssize_t rfio_request_finish(rfio_request *request);

/*
 * Tickets: another server decides who may open what, and one of RFIO that shares a secret with it moves the bytes.
 *
 * The issuer makes a ticket for one file of the other server, for a user as it names users ("" is nobody in particular), to
 * be opened with O_RDONLY, O_WRONLY or O_RDWR within so many seconds (1 to 300), once. `secrets` names the file with the line
 * issuer:secret, which is the server's --tickets; it is read at each call. The ticket is text of at most `room` bytes with its
 * NUL (RFIO_MOST_TICKET is enough for any): 0, or -1. Whoever reads it may use it: hand it over on a way that nobody reads.
 */
#define RFIO_MOST_TICKET 12800
int rfio_issue_ticket(const char *secrets, const char *issuer, const char *user, const char *path, int flags, int seconds,
                      char *ticket, size_t room);
/* Opens the file that a ticket is for, at the server of rfio://HOST[:PORT]: its descriptor. It is read and written by all
 * calls but those that would have to open it once more: requests under way, and any in a child of fork (EOPNOTSUPP). */
int rfio_redeem_ticket(const char *server, const char *ticket);

void rfio_perror(const char *prefix);
char *rfio_serror(void);
int rfio_serror_r(char *buffer, size_t size);
/* What this thread's last failed call was about, in words, with what the server said. Unlike rfio_serror it has more to tell than
 * the number; it belongs to the library and stays until this thread's next call that fails. */
const char *rfio_reason(void);
int rfio_serrno(void);
int rfioreadopt(int descriptor);
int rfiosetopt(int option, int *value, int length);
/* Whether a path is remote: 1 with its host and path, 0 if it is local. The texts belong to the
 * library and stay until this thread's next call. */
int rfio_parse(char *path, char **host, char **file);

int Cthread_init(void);

#ifdef __cplusplus
}
#endif
#endif
