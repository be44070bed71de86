#!/usr/bin/env bash
# Build RPM packages for the family of EL9 from a copy of the working tree. On another distribution, as in the tests, they
# can be built and looked at, but are not for use: they need what they were linked with. Usage: packaging/rpm.sh
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${RPM_DIR:-build/rpm}")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# shellcheck disable=SC2086
slurm=$(packaging/slurm-headers.sh gcc ${SLURM_PREFIX:+-I$SLURM_PREFIX/include})
name=slurm-vgpu-$version

elsewhere=()
if [[ ! -e /etc/redhat-release ]]; then
    packaging/apt.sh rpm
    # What rpm there has no packages for is here all the same.
    elsewhere=(--nodeps --define "_libdir /usr/lib64" --define "dist .el9" --define "python $(realpath /usr/bin/python3)")
fi
bundled=$(build/venv/bin/python -c '
from importlib.metadata import version
names = ("click", "jinja2", "markupsafe", "networkx", "nvidia-ml-py", "python-hostlist")
print(", ".join(f"bundled(python3dist({name})) = {version(name)}" for name in names))')

rm -rf "$out"
mkdir -p "$out/SOURCES"
packaging/copy-source.sh "$out/$name" hostlist pynvml click jinja2 markupsafe networkx
tar -C "$out" -czf "$out/SOURCES/$name.tar.gz" "$name"
rm -r "${out:?}/$name"
rpmbuild -bb --define "_topdir $out" --define "version $version" --define "slurm_version $slurm" \
    --define "bundled $bundled" \
    "${elsewhere[@]}" packaging/rpm/slurm-vgpu.spec >"$out/build.log" 2>&1 ||
    { tail -n 30 "$out/build.log" >&2; echo "rpm: the build failed; see $out/build.log" >&2; exit 1; }
mv "$out"/RPMS/*/*.rpm "$out"
rm -rf "$out"/{BUILD,BUILDROOT,RPMS,SOURCES,SPECS,SRPMS}
ls "$out"/*.rpm
