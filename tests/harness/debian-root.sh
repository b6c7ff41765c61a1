# Sourced by scripts that make a root of Debian or Ubuntu: this machine's mirrors and settings of apt, where it has the same
# distribution; else mmdebstrap's own.

# The site that apt has an archive from: site ORIGIN LABEL
site() {
	apt-get indextargets --format '$(SITE)' "Created-By: Packages" "Origin: $1" "Label: $2" 2> /dev/null | head -n 1
}

# Makes a root: debian_root SCRATCH SUITE ROOT COMPONENTS PACKAGES [SOURCE]... COMPONENTS and PACKAGES are lists by
# commas. Fails with mmdebstrap's output in SCRATCH/log.
debian_root() {
	apt-config dump | grep -E '^Acquire::(https?|ftp|Retries)' > "$1/apt.conf" || true
	run_mmdebstrap "$@" && return
	grep -q 'is expired' "$1/log" || return 1
	echo "the archive's lists have expired; they are used all the same" >&2
	echo 'Acquire::Check-Valid-Until "false";' >> "$1/apt.conf"
	rm -rf "$3"
	run_mmdebstrap "$@"
}

# As debian_root, once.
run_mmdebstrap() (
	scratch=$1 suite=$2 root=$3 components=$4 packages=$5
	shift 5
	mmdebstrap --variant=minbase --components="$components" --aptopt="$scratch/apt.conf" --dpkgopt=force-unsafe-io \
		--include="$packages" "$suite" "$root" "$@" > "$scratch/log" 2>&1
)

# Mounts the file systems of a root; call it in a separate mount namespace: mount_root ROOT
mount_root() {
	mount -t proc proc "$1/proc"
	mount --rbind /sys "$1/sys"
	mount --rbind /dev "$1/dev"
	mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
}
