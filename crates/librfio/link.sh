#!/bin/sh
# Links librfio.so.2 and libshift.so.2 from the static library that cargo built.
#
#   link.sh [PROFILE_DIRECTORY]      default: target/release of this workspace
#
# The two are the same library under two names: old programs ask for libshift.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
profile=${1:-$here/../../target/release}
archive=$profile/libverbena_rfio_c.a

if [ ! -f "$archive" ]; then
	echo "link.sh: no $archive; build it with: cargo build --release -p verbena-librfio" >&2
	exit 1
fi

mkdir -p "$profile/lib"
for name in librfio libshift; do
	result=$profile/lib/$name.so.2
	scratch=$result.$$
	trap 'rm -f "$scratch"' EXIT
	"${CC:-cc}" -shared -o "$scratch" \
		-Wl,-soname,"$name.so.2" \
		-Wl,--version-script="$here/librfio.map" \
		-Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
		-Wl,--gc-sections -Wl,--no-undefined -Wl,--as-needed \
		-Wl,-z,relro -Wl,-z,now \
		${LDFLAGS:-} \
		-lgcc_s -lpthread -ldl -lm -lc
	mv -f "$scratch" "$result"
	ln -sfn "$name.so.2" "$profile/lib/$name.so"
done
