#!/bin/sh
# Links libibverbs.so.1 from the static library that cargo built.
#
#   link.sh [PROFILE_DIRECTORY]      default: target/release of this workspace
#
# Takes PROFILE_DIRECTORY/libverbena_ibverbs.a, makes PROFILE_DIRECTORY/lib/libibverbs.so.1 and the
# name libibverbs.so for it. Cargo cannot make it: rustc passes a version script of its own when it
# links a cdylib, and with two of them the nodes appear in the file but the symbols stay
# unversioned, so that dlvsym finds nothing.
#
# CC, CFLAGS and LDFLAGS are honoured (a sanitizer build adds its flag there).
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
# Linked under another name and moved into place, so that a program that starts meanwhile finds the
# old library or the new one, never half of one.
result=$profile/lib/libibverbs.so.1
scratch=$result.$$
trap 'rm -f "$scratch" "$scratch.o"' EXIT

# shellcheck disable=SC2086
"${CC:-cc}" ${CFLAGS:-} -O2 -fPIC -Wall -Wextra -Werror -c "$here/src/variadic.c" -o "$scratch.o"

# --gc-sections drops what no exported name leads to; --no-undefined turns a name that the map or
# the code promises and nobody has into an error here instead of in a user's program; -z nodelete,
# because the adapter's threads and fork handlers must outlive a dlclose.
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
