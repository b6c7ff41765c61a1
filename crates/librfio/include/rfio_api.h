/*
 * RFIO's C interface: the same calls for files on RFIO servers and for local files.
 *
 * A path is HOST:/PATH or rfio://HOST[:PORT]/PATH; anything else is local. Every function is
 * thread-safe; calls on one descriptor are carried out one after the other. Environment variables
 * (RFIO_USER, RFIO_SECRETS, RFIO_TLS_CA, RFIO_TLS_CERTIFICATE, RFIO_TLS_KEY, RFIO_FABRIC,
 * RFIO_TIMEOUT, RFIO_RETRY, RFIO_PORT) configure the connections.
 *
 * Like the system's functions, those here return -1 and set errno; rfio_errno has the server's
 * error, serrno an error of the connection.
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

/* __off64_t and the incomplete struct stat64 need no feature macro. Code that accesses a struct
 * stat64 needs _GNU_SOURCE or _LARGEFILE64_SOURCE, which C++ compilers define by themselves. */
struct stat64;
struct dirent64;

#ifdef __cplusplus
extern "C" {
#endif

struct rfstatfs {
	long totblks;  /* total blocks */
	long freeblks; /* free blocks */
	long bsize;    /* bytes per block */
	long totnods;  /* total inodes */
	long freenods; /* free inodes */
};

struct iovec64 {
	__off64_t iov_base; /* offset in the file */
	int iov_len;      /* bytes */
};

/* File attributes, in fields of the same size and offset on every platform. Times are nanoseconds
 * since 1970, blocks have 512 bytes. */
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

/* Error numbers of this thread. */
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
 * rfiosetopt: option and values of RFIO_READOPT. With RFIO_READAHEAD and RFIO_STREAM, rfio_read of
 * a file that is open only for reading resumes after its connection was lost (for example by a
 * restart of the server): it reconnects, after pauses that grow from 0.1 s to 5 s, and gives up
 * after RFIO_RETRY seconds without success (environment; default 30, 0 disables). If the server has
 * another file under the name by then, the error is ESTALE.
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

/* Variants over a kept connection. Every call here keeps its connection, so these are aliases of
 * the functions above. rfio_end, rfio_unend and rfio_symend close the kept connections. */
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
 * Extensions of the classic interface.
 *
 * Reads and writes at an offset do not change the position. A read within a range that
 * rfio_preseek64 fetched is served from memory; any other is one request, regardless of
 * RFIO_READOPT.
 */
ssize_t rfio_pread64(int descriptor, void *buffer, size_t size, __off64_t offset);
ssize_t rfio_pwrite64(int descriptor, const void *buffer, size_t size, __off64_t offset);
int rfio_ftruncate64(int descriptor, __off64_t size);
/* Copies part of an open file to another one. Returns the number of bytes, which may be smaller
 * than size, and is 0 only at the end of the file. Within one server no data is transferred; EXDEV
 * if the files are not on the same server, or it is too old. */
ssize_t rfio_copy_range(int from, __off64_t offset, int to, __off64_t at, size_t size);
int rfio_fsync(int descriptor);
/* Returns the CRC32C of the whole file, computed by the server; EOPNOTSUPP for a local file. */
int rfio_checksum(int descriptor, uint32_t *crc32c);
/* Return the attributes of a path (links are followed) and of an open file. */
int rfio_examine(const char *path, struct rfio_attributes *attributes);
int rfio_fexamine(int descriptor, struct rfio_attributes *attributes);
/* Returns the next name of a directory and its attributes (links are not followed), without another
 * request: 1, or 0 after the last. ERANGE for a name that does not fit. */
int rfio_readentry(DIR *directory, char *name, size_t room, struct rfio_attributes *attributes);

/*
 * Asynchronous requests.
 *
 * Any thread may begin and finish requests, in any order, with hundreds in progress: those of all
 * files of a server share one connection. Beginning a request does not block, except the first one
 * of a descriptor, which opens the file again by its name (ESTALE if another file has the name by
 * then; this fails on a descriptor whose file was created and unlinked since). From begin to finish
 * the buffer belongs to the library. Every request must be finished exactly once.
 *
 * If requests of one descriptor overlap and one of them writes, they are carried out one after the
 * other. Requests of different descriptors, and calls of the classic interface, are not ordered:
 * finish one before the other begins. Data written by a finished request is visible to all later
 * operations. On a local file a request is done when it begins.
 */
typedef struct rfio_request rfio_request;

/* Return NULL, with errno and serrno set, if the request was not begun. */
rfio_request *rfio_begin_pread(int descriptor, void *buffer, size_t size, __off64_t offset);
rfio_request *rfio_begin_pwrite(int descriptor, const void *buffer, size_t size, __off64_t offset);
/* Reads ranges in any order, with few requests to the server. Range i is placed in the buffer after
 * the full lengths of ranges 0 to i-1; lengths[i] is the number of bytes read, which is smaller
 * only at the end of the file. */
rfio_request *rfio_begin_preadv(int descriptor, const struct iovec64 *ranges, int count, void *buffer, size_t size,
                                int *lengths);
/* Returns 1 if the request is done, 0 if not; never blocks. */
int rfio_request_done(rfio_request *request);
/* Waits until one of the requests is done, at most the given milliseconds (forever if negative).
 * Returns its index, or count after a timeout. Null pointers are skipped. */
int rfio_request_wait(rfio_request *const *requests, int count, int milliseconds);
/* Cancels a request. It must still be finished: it ends with ECANCELED, or as usual if it was too
 * late. A write that was sent is carried out. */
int rfio_request_cancel(rfio_request *request);
/* Returns a descriptor for poll(2): readable when this request, or another one of its server, may
 * be done. If several threads wait, another one may have processed the reply: poll with a timeout
 * then. */
int rfio_request_events(rfio_request *request);
/* Waits for the request, returns its result like pread(2) and pwrite(2) (for ranges, the sum of
 * their bytes), and frees it. */
ssize_t rfio_request_finish(rfio_request *request);

/*
 * Tickets: another server authorizes users, and an RFIO server that shares a secret with it
 * transfers the data.
 *
 * The issuer creates a ticket for one file of the RFIO server, for a user in the issuer's naming
 * ("" is anonymous), to be opened once with O_RDONLY, O_WRONLY or O_RDWR within the given seconds
 * (1 to 300). `secrets` is the path of the file with the line issuer:secret, the server's
 * --tickets; it is read at each call. The ticket is text of at most `room` bytes with its NUL
 * (RFIO_MOST_TICKET suffices for any). Returns 0 or -1. A ticket is valid for any holder: transmit
 * it confidentially.
 */
#define RFIO_MOST_TICKET 12800
int rfio_issue_ticket(const char *secrets, const char *issuer, const char *user, const char *path, int flags, int seconds,
                      char *ticket, size_t room);
/* Opens the file of a ticket at the server rfio://HOST[:PORT] and returns its descriptor. It works
 * with all calls except those that would open the file again: asynchronous requests, and any call
 * in a child of fork (EOPNOTSUPP). */
int rfio_redeem_ticket(const char *server, const char *ticket);

void rfio_perror(const char *prefix);
char *rfio_serror(void);
int rfio_serror_r(char *buffer, size_t size);
/* Describes this thread's last error, with the server's message, in more detail than rfio_serror.
 * The text belongs to the library and is valid until this thread's next error. */
const char *rfio_reason(void);
int rfio_serrno(void);
int rfioreadopt(int descriptor);
int rfiosetopt(int option, int *value, int length);
/* Returns whether a path is remote: 1 with its host and path, 0 if it is local. The texts belong to
 * the library and are valid until this thread's next call. */
int rfio_parse(char *path, char **host, char **file);

int Cthread_init(void);

#ifdef __cplusplus
}
#endif
#endif
