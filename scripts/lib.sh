# shellcheck shell=bash
# What the scripts in this folder share. To be sourced, not run.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
	say "$@"
	exit 1
}

is_root() { [ "$(id -u)" = 0 ]; }

as_root() {
	if is_root; then "$@"; else sudo -n "$@"; fi
}

# can_apt says whether packages can be installed here without asking anyone.
can_apt() {
	command -v apt-get >/dev/null || return 1
	is_root || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# apt_install installs Debian packages; whatever apt says goes to stderr.
apt_install() {
	local try
	say "installing with apt-get: $*"
	for try in 1 2 3 4 5; do
		# The lock on the package lists has no timeout of its own, and another
		# clone may be doing the same at this moment: so try again.
		as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get -qq -o DPkg::Lock::Timeout=300 update && break
		say "apt-get update failed (try $try of 5)"
		sleep 3
	done
	as_root env DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 \
		apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
		-o Dpkg::Options::=--force-confold \
		install --no-install-recommends "$@"
} </dev/null >&2
