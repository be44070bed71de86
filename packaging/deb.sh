#!/usr/bin/env bash
# Build the Debian packages from a copy of the working tree. Usage: packaging/deb.sh [SUITE]
# The packages of SUITE (this machine's; another one is built in a root of its own) come to build/deb/SUITE. Whoever
# builds for others sets DEBFULLNAME and DEBEMAIL.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
suite=${1:-$here}
out=$(realpath -m "${DEB_DIR:-build/deb}/$suite")
copy=$out/source
declare -A tags=([bookworm]=deb12 [trixie]=deb13)
tag=${tags[$suite]:-}
[[ $tag ]] || { echo "deb: packages are built for bookworm and trixie, not for $suite" >&2; exit 2; }

needs=$(sed -n '/^Build-Depends:/,/^$/{s/^ \(.*\),$/\1/p}' packaging/debian/control | sed 's/ .*//; s/^debhelper-compat/debhelper/')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
date=$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")
maintainer="${DEBFULLNAME:-slurm-vgpu maintainers} <${DEBEMAIL:-slurm-vgpu@localhost}>"

rm -rf "$out"
packaging/copy-source.sh "$copy" hostlist pynvml
cp -r packaging/debian "$copy/debian"
cat - "packaging/debian/changelog" >"$copy/debian/changelog" <<END
slurm-vgpu ($version-1~$tag) $suite; urgency=medium

  * Built for the Slurm of $suite.

 -- $maintainer  $date

END
sed -i "s/^Maintainer:.*/Maintainer: $maintainer/" "$copy/debian/control"

build="cd $copy && dpkg-buildpackage --build=binary --no-sign"
if [[ $suite = "$here" ]]; then
    packaging/apt.sh dpkg-dev $needs # shellcheck disable=SC2086
    bash -c "$build"
else
    build/venv/bin/python -m tests.roots run --suite "$suite" --packages "build-essential,${needs//$'\n'/,}" \
        --bind "$out:$out" -- bash -c "$build"
fi >"$out/build.log" 2>&1 || { tail -n 30 "$out/build.log" >&2; echo "deb: the build failed; see $out/build.log" >&2; exit 1; }
rm -rf "$copy"
ls "$out"/*.deb
