#!/usr/bin/env bash
# The folders of an installation. `make` creates those that are not there, and notes in NOTE which they were;
# `remove` removes the noted ones again where nothing is left in them: a site's own are never touched.
# Usage: folders.sh make DESTDIR NOTE FOLDER... | folders.sh remove DESTDIR NOTE
set -euo pipefail
action=$1 destdir=$2 note=$3
shift 3

# Create one folder and what lies above it, outermost first; print the new ones as they are called without DESTDIR.
make_folder() {
    local path=$1
    [[ -d $destdir$path ]] && return
    [[ ${path%/*} ]] && make_folder "${path%/*}"
    install -d -m 755 "$destdir$path"
    printf '%s\n' "$path"
}

case $action in
make)
    install -d "$destdir/"
    made=$(for folder; do make_folder "$folder"; done)
    [[ $made ]] && printf '%s\n' "$made" >>"$destdir$note"
    ;;
remove)
    [[ -e $destdir$note ]] || exit 0
    mapfile -t made < <(sort -ru "$destdir$note")
    rm "$destdir$note"
    for folder in "${made[@]}"; do
        rmdir --ignore-fail-on-non-empty "$destdir$folder" 2>/dev/null || [[ ! -d $destdir$folder ]]
    done
    ;;
esac
exit 0
