#!/usr/bin/env bash
# Install those of some Debian packages that are missing, as root. Usage: packaging/apt.sh PACKAGE...
set -euo pipefail
command -v dpkg-query >/dev/null || { echo "setup: this is no Debian; needed are what it calls $*"; exit 0; }
missing=()
for package; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
done
((${#missing[@]})) || exit 0
if ((EUID != 0)); then
    echo "setup: these Debian packages are missing and need root to install: ${missing[*]}" >&2
    exit 2
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends "${missing[@]}"
