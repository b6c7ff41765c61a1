#!/bin/sh
# Links libibverbs.so.1 from the static library that cargo built.
#
#   link.sh [PROFILE_DIRECTORY]      default: target/release of this workspace
#
# Reads PROFILE_DIRECTORY/libverbena_ibverbs.a, writes PROFILE_DIRECTORY/lib/libibverbs.so.1 and the
# symbolic link libibverbs.so. Cargo cannot do this: rustc passes a version script of its own when
# it links a cdylib; with two version scripts the version nodes are in the file but the symbols stay
# unversioned, so that dlvsym finds nothing.
#
# Honours CC, CFLAGS and LDFLAGS (a sanitizer build adds its flag there).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
profile=${1:-$here/../../target/release}
archive=$profile/libverbena_ibverbs.a
map=$here/libibverbs.map

if [ ! -f "$archive" ]; then
	echo "link.sh: no $archive; build it with: cargo build --release -p verbena-ibverbs" >&2
	exit 1
fi

mkdir -p "$profile/lib"
# Linked under another name and renamed, so that a program that starts meanwhile loads the old or
# the new library, never a partial one.
result=$profile/lib/libibverbs.so.1
scratch=$result.$$
trap 'rm -f "$scratch" "$scratch.o"' EXIT

# shellcheck disable=SC2086
"${CC:-cc}" ${CFLAGS:-} -O2 -fPIC -Wall -Wextra -Werror -c "$here/src/variadic.c" -o "$scratch.o"

# --gc-sections drops code that no exported name reaches. --no-undefined reports a name that the map
# or the code declares but nothing defines, here rather than in a user's program. -z nodelete: the
# adapter's threads and fork handlers must outlive a dlclose.
# shellcheck disable=SC2086
"${CC:-cc}" -shared -o "$scratch" \
	-Wl,-soname,libibverbs.so.1 \
	-Wl,--version-script="$map" \
	"$scratch.o" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
	-Wl,--gc-sections -Wl,--no-undefined -Wl,--as-needed \
	-Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now \
	${LDFLAGS:-} \
	-lgcc_s -lpthread -ldl -lm -lc

mv -f "$scratch" "$result"
ln -sfn libibverbs.so.1 "$profile/lib/libibverbs.so"
