/* Runs a program for which the kernel refuses some system calls, as the seccomp profile of a
 * container does:
 *
 *   refuse CALL[,CALL...] PROGRAM ARGUMENTS...
 *
 * CALL is userfaultfd, process_vm (both directions) or memfd; or docker, for the calls that
 * programs here might make and Docker's default profile refuses to a container without
 * capabilities. A refused call fails with EPERM, as under Docker's and Podman's profiles; clone3
 * fails with ENOSYS, so that the C library uses clone.
 *
 * Source: man seccomp(2); github.com/moby/moby, profiles/seccomp/default.json. */

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_CALLS 24

struct refusal {
	const char *name;
	int calls[MOST_CALLS]; /* up to the first -1 */
};

static const struct refusal refusals[] = {
	{ "userfaultfd", { SYS_userfaultfd, -1 } },
	{ "process_vm", { SYS_process_vm_readv, SYS_process_vm_writev, -1 } },
	{ "memfd", { SYS_memfd_create, -1 } },
	{ "docker", { SYS_userfaultfd, SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root,
		      SYS_clone3, SYS_bpf, SYS_perf_event_open, SYS_keyctl, SYS_add_key,
		      SYS_request_key, SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy,
		      SYS_move_pages, SYS_migrate_pages, SYS_kcmp, SYS_pidfd_getfd,
		      SYS_process_madvise, SYS_open_by_handle_at, -1 } },
};

static int error_of(int call)
{
	return call == SYS_clone3 ? ENOSYS : EPERM;
}

static void refuse(const int *calls, unsigned count)
{
	struct sock_filter filter[MOST_CALLS * 2 + 2];
	unsigned length = 0;
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							offsetof(struct seccomp_data, nr));
	for (unsigned call = 0; call < count; call++) {
		filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								(unsigned)calls[call], 0, 1);
		filter[length++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						     SECCOMP_RET_ERRNO | (unsigned)error_of(calls[call]));
	}
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = (unsigned short)length, .filter = filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("refuse: this kernel takes no filter");
		exit(77);
	}
}

int main(int count, char **arguments)
{
	int calls[MOST_CALLS];
	unsigned refused = 0;
	if (count < 3) {
		fprintf(stderr, "usage: refuse CALL[,CALL...] PROGRAM ARGUMENTS...\n");
		return 2;
	}
	for (char *name = strtok(arguments[1], ","); name != NULL; name = strtok(NULL, ",")) {
		const struct refusal *found = NULL;
		for (size_t each = 0; each < sizeof refusals / sizeof *refusals; each++)
			if (strcmp(name, refusals[each].name) == 0)
				found = &refusals[each];
		if (found == NULL) {
			fprintf(stderr, "refuse: cannot refuse %s\n", name);
			return 2;
		}
		for (const int *each = found->calls; *each >= 0; each++) {
			if (refused == MOST_CALLS) {
				fprintf(stderr, "refuse: more than %d calls\n", MOST_CALLS);
				return 2;
			}
			calls[refused++] = *each;
		}
	}
	refuse(calls, refused);
	execvp(arguments[2], &arguments[2]);
	fprintf(stderr, "refuse: cannot execute %s: %m\n", arguments[2]);
	return 127;
}
