/* Makes every way to load libibverbs load Verbena's. LD_LIBRARY_PATH alone is not enough: wheels
   contain copies (`libibverbs-1f2e3d4c.so.1`), and an old RPATH, an absolute path of dlopen(3) or an
   earlier directory find the system's libibverbs, which has no software adapter.

   - dlopen of any file named libibverbs opens the library in this object's directory.
   - Each public name of libibverbs is defined here, without a version. This object is preloaded, so it
     precedes every library in symbol lookup, and passes calls on to the library in its directory.
     Definitions of another preloaded object (a tracer) come first.

   rtld-audit(7) could redirect libraries too, but the static TLS of an audited program is laid out
   before its libraries are loaded (TSan's and jemalloc's no longer fit), and valgrind reports the
   linker's own memory as freed wrongly. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* musl's dlopen has no such flag, and there is no dlmopen. */
#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0
#endif

static const char LIBRARY[] = "libibverbs.so.1";

static const char *after_last_slash(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Accepts libibverbs.so, libibverbs.so.1, libibverbs-1f2e3d4c.so.1.14.44.0 and similar names; not
   libibverbs_other.so. */
static int is_libibverbs(const char *path)
{
	static const char STEM[] = "libibverbs";
	const char *name = after_last_slash(path), *suffix;

	if (strncmp(name, STEM, sizeof STEM - 1) != 0)
		return 0;
	name += sizeof STEM - 1;
	if (*name != '.' && *name != '-')
		return 0;
	suffix = strstr(name, ".so");
	return suffix != NULL && (suffix[3] == '\0' || suffix[3] == '.');
}

/* Returns the path of the library in this object's directory, or only its name if that is unknown. */
static const char *library_path(void)
{
	static char path[PATH_MAX];
	static atomic_int state; /* 0: not set, 1: being set, 2: set */
	int none = 0;
	Dl_info self;

	if (atomic_load_explicit(&state, memory_order_acquire) == 2)
		return path;
	if (!atomic_compare_exchange_strong(&state, &none, 1))
		return LIBRARY;
	if (dladdr(LIBRARY, &self) != 0 && self.dli_fname != NULL && self.dli_fname[0] == '/') {
		size_t directory = (size_t)(after_last_slash(self.dli_fname) - self.dli_fname);

		if (directory + sizeof LIBRARY <= sizeof path) {
			memcpy(path, self.dli_fname, directory);
			memcpy(path + directory, LIBRARY, sizeof LIBRARY);
		}
	}
	if (path[0] == '\0')
		memcpy(path, LIBRARY, sizeof LIBRARY);
	atomic_store_explicit(&state, 2, memory_order_release);
	return path;
}

typedef void *open_function(const char *, int);

static open_function *next_dlopen(void)
{
	static _Atomic(open_function *) found;
	open_function *next = atomic_load_explicit(&found, memory_order_relaxed);

	if (next == NULL) {
		next = (open_function *)dlsym(RTLD_NEXT, "dlopen");
		atomic_store_explicit(&found, next, memory_order_relaxed);
	}
	return next;
}

/* File and function with which dlopen continues. */
struct opening {
	const char *file;
	open_function *next;
};

/* Whether a library was opened in a way that its lookups do not find the names defined here first. */
static atomic_bool out_of_reach;

__attribute__((visibility("hidden"))) struct opening verbena_shim_opening(const char *file, int flags)
{
	struct opening opening = { file, next_dlopen() };

	if (flags & RTLD_DEEPBIND)
		atomic_store_explicit(&out_of_reach, 1, memory_order_relaxed);
	if (file != NULL && is_libibverbs(file))
		opening.file = library_path();
	return opening;
}

enum {
#define NAME(name) AT_##name,
#include "names.h"
#undef NAME
	NAMES
};

static const char *const names[] = {
#define NAME(name) #name,
#include "names.h"
#undef NAME
};

static void missing(const char *name)
{
	fprintf(stderr, "verbena: no %s in %s: %s\n", name, library_path(), dlerror());
	abort();
}

/* Targets of the calls, read by the trampolines; the initial value leads to `verbena_shim_resolve`. */
__attribute__((visibility("hidden"))) extern void *verbena_shim_targets[NAMES];

/* Called by a name's trampoline at its first call, with the name's number. */
__attribute__((visibility("hidden"))) void *verbena_shim_resolve(size_t number)
{
	int error = errno;
	const char *name = names[number];
	void *target = dlsym(RTLD_NEXT, name);
	Dl_info object;

	if (target == NULL || (dladdr(target, &object) != 0 && object.dli_fname != NULL && is_libibverbs(object.dli_fname))) {
		open_function *open = next_dlopen();
		void *library = open(library_path(), RTLD_LAZY | RTLD_LOCAL);

		target = library != NULL ? dlsym(library, name) : NULL;
		if (target == NULL)
			missing(name);
	}
	__atomic_store_n(&verbena_shim_targets[number], target, __ATOMIC_RELEASE);
	errno = error;
	return target;
}

/* A name: jumps to its target. The initial target sets the number and jumps to the common part, which
   preserves the arguments. */
#if defined __x86_64__
#define TRAMPOLINE(name, at)                                     \
	".globl " name "\n.type " name ", @function\n" name ":\n" \
	"	endbr64\n"                                       \
	"	jmp *8*" at "+verbena_shim_targets(%rip)\n"      \
	".size " name ", .-" name "\n"                            \
	"verbena_shim_first_" name ":\n"                         \
	"	endbr64\n"                                       \
	"	mov $" at ", %eax\n"                             \
	"	jmp verbena_shim_common\n"
#define COMMON                                                                     \
	"verbena_shim_common:\n"                                                   \
	"	push %rdi\n	push %rsi\n	push %rdx\n	push %rcx\n"        \
	"	push %r8\n	push %r9\n	sub $8, %rsp\n"                     \
	"	mov %eax, %edi\n"                                                  \
	"	call verbena_shim_resolve\n"                                       \
	"	add $8, %rsp\n	pop %r9\n	pop %r8\n	pop %rcx\n"         \
	"	pop %rdx\n	pop %rsi\n	pop %rdi\n"                         \
	"	jmp *%rax\n"
/* The linker determines dlopen's caller from the return address and searches on its behalf, so this
   jumps to the next dlopen. */
#define DLOPEN                                                                     \
	".globl dlopen\n.type dlopen, @function\ndlopen:\n"                          \
	"	endbr64\n	push %rsi\n	call verbena_shim_opening\n	pop %rsi\n"       \
	"	mov %rax, %rdi\n	jmp *%rdx\n.size dlopen, .-dlopen\n"
#elif defined __aarch64__
#define TRAMPOLINE(name, at)                                     \
	".globl " name "\n.type " name ", %function\n" name ":\n" \
	"	hint #34\n"                                      \
	"	adrp x16, verbena_shim_targets+8*" at "\n"       \
	"	ldr x16, [x16, :lo12:verbena_shim_targets+8*" at "]\n" \
	"	br x16\n"                                        \
	".size " name ", .-" name "\n"                            \
	"verbena_shim_first_" name ":\n"                         \
	"	hint #34\n"                                      \
	"	mov w16, #" at "\n"                              \
	"	b verbena_shim_common\n"
#define COMMON                                                                     \
	"verbena_shim_common:\n"                                                   \
	"	stp x29, x30, [sp, #-96]!\n	mov x29, sp\n"                      \
	"	stp x0, x1, [sp, #16]\n	stp x2, x3, [sp, #32]\n"            \
	"	stp x4, x5, [sp, #48]\n	stp x6, x7, [sp, #64]\n	str x8, [sp, #80]\n" \
	"	mov w0, w16\n"                                                     \
	"	bl verbena_shim_resolve\n"                                         \
	"	mov x16, x0\n"                                                     \
	"	ldp x0, x1, [sp, #16]\n	ldp x2, x3, [sp, #32]\n"            \
	"	ldp x4, x5, [sp, #48]\n	ldp x6, x7, [sp, #64]\n	ldr x8, [sp, #80]\n" \
	"	ldp x29, x30, [sp], #96\n"                                         \
	"	br x16\n"
#define DLOPEN                                                                     \
	".globl dlopen\n.type dlopen, %function\ndlopen:\n"                          \
	"	hint #34\n	stp x29, x30, [sp, #-32]!\n	mov x29, sp\n"             \
	"	str x1, [sp, #16]\n	bl verbena_shim_opening\n	mov x16, x1\n"      \
	"	ldr x1, [sp, #16]\n	ldp x29, x30, [sp], #32\n	br x16\n"           \
	".size dlopen, .-dlopen\n"
#else
#error "trampolines are written for x86-64 and AArch64"
#endif

/* The numbers, for the assembler. */
#define NAME(name) ".set verbena_shim_at_" #name ", verbena_shim_count\n.set verbena_shim_count, verbena_shim_count+1\n"
__asm__(".set verbena_shim_count, 0\n"
#include "names.h"
);
#undef NAME

__asm__(".text\n.balign 16\n" DLOPEN COMMON
#define NAME(name) TRAMPOLINE(#name, "verbena_shim_at_" #name)
#include "names.h"
#undef NAME
);

__asm__(".section .data\n.balign 8\n.hidden verbena_shim_targets\n"
	".globl verbena_shim_targets\nverbena_shim_targets:\n"
#define NAME(name) ".quad verbena_shim_first_" #name "\n"
#include "names.h"
#undef NAME
	".text\n");

#ifdef LM_ID_BASE
/* In a new namespace the names of this object do not exist. */
typedef void *open_in_namespace_function(Lmid_t, const char *, int);

void *dlmopen(Lmid_t namespace, const char *file, int flags)
{
	open_in_namespace_function *next = (open_in_namespace_function *)dlsym(RTLD_NEXT, "dlmopen");

	if (namespace != LM_ID_BASE)
		atomic_store_explicit(&out_of_reach, 1, memory_order_relaxed);
	return next(namespace, file, flags);
}
#endif

/* At exit: if a library may have been out of reach, names each other libibverbs that is loaded. It may
   have found no device, or the machine's own adapter. */
__attribute__((destructor)) static void name_other_libraries(void)
{
	char line[PATH_MAX + 128], last[PATH_MAX] = "";
	FILE *maps;

	if (!atomic_load_explicit(&out_of_reach, memory_order_relaxed))
		return;
	maps = fopen("/proc/self/maps", "re");
	while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
		char *path = strchr(line, '/');

		if (path == NULL)
			continue;
		path[strcspn(path, "\n")] = '\0';
		if (!is_libibverbs(path) || strcmp(path, library_path()) == 0 || strcmp(path, last) == 0)
			continue;
		strncpy(last, path, sizeof last - 1);
		fprintf(stderr,
			"verbena: %s was loaded by RTLD_DEEPBIND or dlmopen, where the adapter cannot take its place: calls to it "
			"did not reach the adapter\n",
			path);
	}
	if (maps != NULL)
		fclose(maps);
}
