#!/bin/sh
# Links libverbena_shim.so from the static library that cargo built and the C files in src.
#
#   link.sh [PROFILE_DIRECTORY]      default: target/release of this workspace
#
# Reads PROFILE_DIRECTORY/libverbena_shim.a and writes PROFILE_DIRECTORY/lib/libverbena_shim.so.
# Cargo cannot do this: rustc exports only names that Rust defines from a cdylib, and `open` is
# defined in C.
#
# Honours CC, CFLAGS and LDFLAGS.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
profile=${1:-$here/../../target/release}
archive=$profile/libverbena_shim.a

if [ ! -f "$archive" ]; then
	echo "link.sh: no $archive; build it with: cargo build --release -p verbena-shim" >&2
	exit 1
fi

mkdir -p "$profile/lib"
# Renamed into place, and only if it differs: programs that start meanwhile preload it.
result=$profile/lib/libverbena_shim.so
scratch=$result.$$
trap 'rm -rf "$scratch" "$scratch.objects"' EXIT
mkdir "$scratch.objects"

# The public names of libibverbs, and the one private name that rdma-core's programs call.
{
	awk '/^IBVERBS_1\./ { public = 1 } /^}/ { public = 0 } public && /^\t\t/ { gsub(/[\t;]/, ""); print "NAME(" $0 ")" }' \
		"$here/../ibverbs/libibverbs.map"
	echo 'NAME(ibv_query_gid_type)'
} > "$scratch.objects/names.h"

# Without debug information, which would contain this tree's path.
for source in variadic blocking system redirect; do
	# shellcheck disable=SC2086
	"${CC:-cc}" ${CFLAGS:-} -O2 -fPIC -Wall -Wextra -Werror -I"$scratch.objects" -c "$here/src/$source.c" \
		-o "$scratch.objects/$source.o"
done
# shellcheck disable=SC2086
"${CC:-cc}" -shared -o "$scratch" \
	-Wl,--version-script="$here/libverbena_shim.map" \
	"$scratch.objects"/*.o -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
	-Wl,--gc-sections -Wl,--no-undefined -Wl,--as-needed \
	-Wl,-z,relro -Wl,-z,now \
	${LDFLAGS:-} \
	-lgcc_s -lpthread -ldl -lm -lc

cmp -s "$scratch" "$result" || mv -f "$scratch" "$result"
