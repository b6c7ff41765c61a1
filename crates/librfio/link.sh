#!/bin/sh
# Links librfio.so.2 and libshift.so.2 from the static library that cargo built.
#
#   link.sh [PROFILE_DIRECTORY]      default: target/release of this workspace
#
# Both are the same library: old programs load libshift. Honours CC, CFLAGS and LDFLAGS.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
profile=${1:-$here/../../target/release}
archive=$profile/libverbena_rfio_c.a

if [ ! -f "$archive" ]; then
	echo "link.sh: no $archive; build it with: cargo build --release -p verbena-librfio" >&2
	exit 1
fi

mkdir -p "$profile/lib"
object=$profile/lib/librfio.$$.o
scratch=
trap 'rm -f "$object" "$scratch"' EXIT
# shellcheck disable=SC2086
"${CC:-cc}" ${CFLAGS:-} -O2 -fPIC -Wall -Wextra -Werror -c "$here/src/variadic.c" -o "$object"
for name in librfio libshift; do
	result=$profile/lib/$name.so.2
	scratch=$result.$$
	# shellcheck disable=SC2086
	"${CC:-cc}" -shared -o "$scratch" \
		-Wl,-soname,"$name.so.2" \
		-Wl,--version-script="$here/librfio.map" \
		"$object" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
		-Wl,--gc-sections -Wl,--no-undefined -Wl,--as-needed \
		-Wl,-z,relro -Wl,-z,now \
		${LDFLAGS:-} \
		-lgcc_s -lpthread -ldl -lm -lc
	mv -f "$scratch" "$result"
	ln -sfn "$name.so.2" "$profile/lib/$name.so"
done
