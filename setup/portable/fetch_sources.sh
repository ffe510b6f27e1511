#!/usr/bin/env bash
# Fetches the source packages of sources.txt and unpacks each with Debian's patches: fetch_sources.sh FOLDER. Their mirrors
# are those of the system's apt, or DEBIAN_MIRROR. Leaves FOLDER/PACKAGE, and FOLDER/fetched with the versions. Where the
# archive has another version than sources.txt, that one is taken, and a warning says so. Without libavif a wheel reads no
# AVIF, which a warning says, too; the other packages have to be there.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
folder=$1

. "$here/../functions.sh"

mkdir -p "$folder/lists" "$folder/packages"
cd "$folder"
suites=(bookworm bookworm-updates bookworm-security)
if [ -n "${DEBIAN_MIRROR:-}" ]; then
  # Security updates are beside the archive: http://MIRROR/debian-security beside http://MIRROR/debian.
  mirrors=$(printf '%s|%s\n' "$DEBIAN_MIRROR" bookworm "$DEBIAN_MIRROR" bookworm-updates \
    "${DEBIAN_MIRROR%/}-security" bookworm-security)
else
  mirrors=$(apt-get indextargets --format '$(SITE)|$(RELEASE)|$(CREATED_BY)|$(COMPONENT)' |
    sed -n 's/|Packages|main$//p' | sort -u)
fi
for suite in "${suites[@]}"; do
  sed -n "s#^\(.*\)|$suite\$#deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \1 $suite main#p" \
    <<<"$mirrors"
done >sources.list
[ -s sources.list ] || { echo "portable: apt knows no mirror of Debian 12 (DEBIAN_MIRROR names one)" >&2; exit 1; }
apt=(-o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$PWD/lists"
  -o Dir::Cache="$PWD" -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update -qq

# fetch NAME [VERSION]
fetch() {
  (cd packages && apt-get "${apt[@]}" source --download-only -qq "$1${2:+=$2}") >"$1.log" 2>&1
}

grep -v '^#' "$here/sources.txt" | while read -r name version hash; do
  if ! fetch "$name" "$version" && ! fetch "$name"; then
    [ "$name" = libavif ] || { cat "$name.log" >&2; exit 1; }
    say "warning: the wheel reads no AVIF, since the archive lacks files of libavif: $(tail -1 "$name.log")"
    continue
  fi
  description=$(ls -v packages/"${name}"_*.dsc | tail -1)
  found=$(sed -n 's/^Version: //p' "$description" | head -1)
  if [ "$found" != "$version" ]; then
    say "warning: of $name the archive has $found, not $version"
  elif ! sha256sum --status -c <<<"$hash  $description"; then
    echo "portable: $name $version of the archive is not the one of $here/sources.txt: its hash differs" >&2
    exit 1
  fi
  dpkg-source -x "$description" "$name" >"$name.log" 2>&1 || { tail "$name.log" >&2; exit 1; }
  echo "$name $found $(sha256sum "$description" | cut -d' ' -f1)"
done >fetched
