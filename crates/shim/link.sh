#!/bin/sh
# Links libverbena_shim.so from the static library that cargo built and src/variadic.c.
#
#   link.sh [PROFILE_DIRECTORY]      default: target/release of this workspace
#
# Takes PROFILE_DIRECTORY/libverbena_shim.a and makes PROFILE_DIRECTORY/lib/libverbena_shim.so. Cargo
# cannot make it: rustc exports only names that Rust defines from a cdylib, and `open` is defined in C.
#
# CC, CFLAGS and LDFLAGS are honoured.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
profile=${1:-$here/../../target/release}
archive=$profile/libverbena_shim.a

if [ ! -f "$archive" ]; then
	echo "link.sh: no $archive; build it with: cargo build --release -p verbena-shim" >&2
	exit 1
fi

mkdir -p "$profile/lib"
# Moved into place, and only if it differs: programs that start meanwhile have it preloaded.
result=$profile/lib/libverbena_shim.so
scratch=$result.$$
trap 'rm -f "$scratch" "$scratch.o"' EXIT

# Without debugging information, which would hold the path of this tree.
# shellcheck disable=SC2086
"${CC:-cc}" ${CFLAGS:-} -O2 -fPIC -Wall -Wextra -Werror -c "$here/src/variadic.c" -o "$scratch.o"
# shellcheck disable=SC2086
"${CC:-cc}" -shared -o "$scratch" \
	-Wl,--version-script="$here/libverbena_shim.map" \
	"$scratch.o" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
	-Wl,--gc-sections -Wl,--no-undefined -Wl,--as-needed \
	-Wl,-z,relro -Wl,-z,now \
	${LDFLAGS:-} \
	-lgcc_s -lpthread -ldl -lm -lc

cmp -s "$scratch" "$result" || mv -f "$scratch" "$result"
