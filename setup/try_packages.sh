#!/usr/bin/env bash
# Installs what `./run package` made, each into a Debian 12 root of its own that has nothing else, and runs it there on
# media of every kind; self-contained wheels in roots of Debian 13 and Ubuntu, too. Needs root (debootstrap, chroot) and
# Debian's archive, and for Ubuntu the mirror that UBUNTU_MIRROR names. OTHER_ROOT names the tar of another system's root,
# such as `podman export` makes of a container, in which wheels are tried for the CPythons that are in its /usr/bin or
# /usr/local/bin.
# Exit status: 77 if a part was skipped, which is said.
set -euo pipefail
[ -z "${OTHER_ROOT:-}" ] || OTHER_ROOT=$(readlink -e "$OTHER_ROOT") || { echo "package: no file OTHER_ROOT" >&2; exit 2; }
cd "$(dirname "$(readlink -f "$0")")/.."

packages=$PWD/build/packages
# The mirror is the one of the system's own apt, unless DEBIAN_MIRROR names another one.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE)' "Codename: bookworm" "Created-By: Packages" | head -1)}
[ -n "$mirror" ] || { echo "package: apt knows no mirror of Debian 12 (DEBIAN_MIRROR names one)" >&2; exit 1; }
mkdir -p build/package
roots=$(mktemp -d build/package/roots.XXXXXX)
trap 'rm -rf --one-file-system "$roots"' EXIT

. setup/functions.sh
. setup/portable/pythons.sh
fail() {
  echo "package: $*" >&2
  exit 1
}
skipped=
skip() {
  skipped=1
  say "skipped: $*"
}

# base_of NAME SUITE [MIRROR SCRIPT OPTIONS...]: makes a tar of this Debian or Ubuntu by debootstrap, once, and leaves its
# path in $base.
base_of() {
  base=$PWD/build/package/$1.tar
  [ ! -e "$base" ] || return 0
  say "a fresh $1 by debootstrap"
  debootstrap --variant=minbase --include=ca-certificates,python3-venv "${@:5}" "$2" "$roots/base" "${3:-$mirror}" \
    ${4:+"$4"} >build/package/debootstrap.log || { tail build/package/debootstrap.log >&2; exit 1; }
  tar -C "$roots/base" -cf "$base.new" .
  rm -rf "$roots/base"
  mv "$base.new" "$base"
}

# ubuntu_keys: the keys of Ubuntu's archive, which no package of Debian 12 has, in $keys.
ubuntu_keys() {
  local package=$roots/ubuntu-keyring.deb
  keys=$roots/ubuntu-keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg
  [ ! -e "$keys" ] || return 0
  wget --quiet --timeout=30 --tries=2 -O "$package" \
    "$UBUNTU_MIRROR/pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb" ||
    fail "UBUNTU_MIRROR does not answer, or lacks ubuntu-keyring 2021.03.26"
  echo "0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f  $package" | sha256sum --check --quiet ||
    fail "the keys of Ubuntu's archive are not those that are expected"
  dpkg-deb -x "$package" "$roots/ubuntu-keyring"
}

say "media of every kind"
media=$roots/media
setup/make_media.sh "$media"
echo "a caption" >"$media/caption.txt"
cat >"$media/try" <<'EOF'
set -e
isocost --version
isocost make-shards /media /tmp/shards
isocost check /tmp/shards
isocost data profile /tmp/shards
isocost-lab --version
EOF

# new_root NAME [FILES]: a fresh root of $base in $roots/NAME with the media, and the files in /packages.
new_root() {
  root=$roots/$1
  shift
  mkdir "$root"
  tar -C "$root" -xf "$base"
  # That of an exported container has an empty /dev, which runtimes fill.
  local device minor
  mkdir -p "$root/dev"
  while read -r device minor; do
    [ -e "$root/dev/$device" ] || mknod -m 666 "$root/dev/$device" c 1 "$minor"
  done <<<$'null 3\nzero 5\nfull 7\nrandom 8\nurandom 9'
  cp --remove-destination /etc/resolv.conf "$root/etc/"
  cp -r "$media" "$root/" # /media
  mkdir "$root/packages"
  [ $# = 0 ] || cp "$@" "$root/packages/"
}
# /proc is mounted for the command alone, in a mount namespace of its own: nothing is left to unmount. So is the folder
# that $shared names, under its own name. The root is a mount of its own, so that programs in it may make namespaces.
shared=
inside() {
  env -i PATH=/opt/isocost/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    SHARED="$shared" unshare --mount sh -c 'mount --bind "$1" "$1" && mount -t proc proc "$1/proc" &&
      { [ -z "$SHARED" ] || { mount --bind "$SHARED" "$1$SHARED" && mount -o remount,bind,ro "$1$SHARED"; }; } &&
      exec chroot "$@"' sh "$root" "$@"
}
install_in() {
  inside sh -c "apt-get update -qq && apt-get install --no-install-recommends -y -qq $*" >"$roots/apt.log" 2>&1 ||
    { cat "$roots/apt.log" >&2; exit 1; }
}
try() { inside sh /media/try >"$roots/try.log" 2>&1 || { cat "$roots/try.log" >&2; fail "$1 does not work"; }; }
installed() { du -sx --apparent-size -BM "$root" | cut -f1; }

debian_packages() {
  say "Debian packages"
  new_root deb "$packages"/*.deb
  before=$(installed)
  install_in '/packages/isocost_*.deb /packages/python3-isocost_*.deb'
  try "the package isocost"
  inside python3 -c 'import isocost; print(isocost.__version__)' >/dev/null || fail "python3-isocost cannot be imported"
  say "  installed with what they depend on: $before -> $(installed)"
  install_in '/packages/libisocost-dev_*.deb cmake make'
  cp -r tests/install/text_client "$root/tmp/"
  inside sh -c 'cmake -S /tmp/text_client -B /tmp/build && cmake --build /tmp/build && /tmp/build/text_client tcp://nowhere' \
    >"$roots/client.log" 2>&1 && fail "text_client joined a node that is not there"
  grep -q 'text_client: invalid argument\|text_client: .*nowhere' "$roots/client.log" ||
    { cat "$roots/client.log" >&2; fail "libisocost-dev does not build a client"; }
  rm -rf "$root"
}

base_of debian12 bookworm
debs=("$packages"/*.deb)
[ ! -e "${debs[0]}" ] || debian_packages

pip_install() {
  inside python3 -m venv /opt/isocost
  inside pip install --quiet --no-index "$1"
}
wheels=("$packages"/isocost-*.whl)
if [ -e "${wheels[0]}" ]; then
  say "wheel"
  new_root wheel "${wheels[0]}"
  pip_install "/packages/$(basename "${wheels[0]}")"
  inside python3 -c 'import isocost' 2>"$roots/import.log" && fail "the wheel needs none of the packages that it names"
  names=$(sed -n 's/.*apt-get install --no-install-recommends -y \(.*\)\. The self-contained wheel.*/\1/p' \
    "$roots/import.log")
  [ -n "$names" ] || { cat "$roots/import.log" >&2; fail "the wheel does not say what it needs"; }
  install_in "$names"
  inside python3 -c 'import isocost'
  try "the wheel with the packages that its error names"
  rm -rf "$root"
fi

# python_inside VERSION: the path of the root's own CPython of this version. Status 1 where it has none.
python_inside() { inside sh -c "command -v python$1"; }

# try_portable WHEEL: in a root of $base, with the root's own Python where the wheel is for that, and otherwise with the
# building host's.
try_portable() {
  local version python prefix components
  version=$(version_of "$1")
  new_root portable "$1"
  python=$(python_inside "$version") || {
    python=$(find_python "$version")
    prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
    [ "$prefix" != /usr ] || fail "the system's CPython $version cannot come along into another system's root"
    mkdir -p "$root$prefix"
    cp -a "$prefix/." "$root$prefix/"
  }
  inside "$python" -m venv /opt/isocost
  inside pip install --quiet --no-index "/packages/$(basename "$1")"
  inside python3 -c 'import isocost'
  components=$(inside isocost --version --components)
  [[ $components = *libavif* ]] || rm "$root"/media/*avif*
  # None of these is needed.
  rm -rf "$root/etc/ssl" "$root/etc/pki" "$root/dev/shm"
  try "the self-contained wheel for CPython $version"
  try_with_torch "$version"
  rm -rf "$root"
}

# try_with_torch VERSION: where test_wheel.sh has installed a torch beside the wheel, the root's Python takes that torch
# and all that lies beside it. The tensors of every format have to be those of the building host; conversations get
# tokens, reach a loader from a node of its own, in isolation and over TCP, and from an embedded one, and train a model by
# a plain loop and in the Trainer. Shards are read from a server of HTTPS beside the root's own OpenSSL.
try_with_torch() {
  local venv=$PWD/build/portable/torch2-$1 site program
  [ -e "$venv/complete" ] && [ -e "build/portable/tensors$1.npz" ] ||
    { skip "tensors and training in a root, since no torch was installed for CPython $1"; return; }
  site=$venv/lib/python$1/site-packages
  mkdir -p "$root$site" "$root/checkout/tests" "$root/checkout/examples"
  cp -r tests/python tests/support "$root/checkout/tests/"
  cp -r examples/huggingface "$root/checkout/examples/"
  cp -r README.md docs setup/portable/media_tensors.py "$root/checkout/" # A tokenizer is trained on the documents.
  shared=$site
  local in_root=(inside env "PYTHONPATH=/opt/isocost/lib/python$1/site-packages:$site"
    ISOCOST_PROGRAM=/opt/isocost/bin/isocost OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo HF_HUB_OFFLINE=1 python3 -B)
  "${in_root[@]}" /checkout/media_tensors.py save /media /tmp/tensors.npz
  # The logarithms of other versions of glibc round in their own way.
  "$venv/bin/python" -B setup/portable/media_tensors.py compare "build/portable/tensors$1.npz" "$root/tmp/tensors.npz" \
    --sounds-within 1e-6 ||
    fail "the self-contained wheel for CPython $1 makes other tensors in a root of its own"
  for program in batching_test tls_test finetune_test; do
    # The last one also runs torch's DataLoader, whose workers need it.
    [ $program != finetune_test ] || mkdir "$root/dev/shm"
    "${in_root[@]}" "/checkout/tests/python/$program.py" >"$roots/$program.log" 2>&1 ||
      { tail -40 "$roots/$program.log" >&2; fail "the self-contained wheel for CPython $1 fails $program in a root"; }
  done
  shared=
}

# version_of WHEEL: that of the CPython which it is for.
version_of() { sed 's/.*-cp3\([0-9]*\)-cp3.*/3.\1/' <<<"$1"; }

# wheel_of VERSION: the path of the self-contained wheel for this CPython. Status 1 where there is none.
wheel_of() {
  local found
  for found in "$packages"/portable/*-cp3"${1#3.}"-*.whl; do
    [ ! -e "$found" ] || { echo "$found"; return; }
  done
  return 1
}

# try_ubuntu VERSION SUITE PYTHON: the wheel for the Python of this Ubuntu.
try_ubuntu() {
  local wheel
  wheel=$(wheel_of "$3") || { skip "Ubuntu $1, for whose CPython $3 there is no wheel"; return 0; }
  [ -n "${UBUNTU_MIRROR:-}" ] || { skip "Ubuntu $1, whose mirror UBUNTU_MIRROR has to name"; return 0; }
  ubuntu_keys
  say "$(basename "$wheel") on Ubuntu $1"
  # debootstrap has one script for all of Ubuntu's suites, and knows not each by name.
  base_of "ubuntu$1" "$2" "$UBUNTU_MIRROR" /usr/share/debootstrap/scripts/gutsy --components=main,universe \
    --keyring="$keys"
  try_portable "$wheel"
}

# try_other: the wheels for the CPythons that are in $OTHER_ROOT.
try_other() {
  local wheel name wheels=()
  [ -n "${OTHER_ROOT:-}" ] || { skip "another system's root, which OTHER_ROOT has to name"; return 0; }
  base=$OTHER_ROOT
  new_root other
  name=$(inside sh -c '. /etc/os-release; echo "$PRETTY_NAME, $(getconf GNU_LIBC_VERSION)"')
  for wheel in "$packages"/portable/*.whl; do
    if python_inside "$(version_of "$wheel")" >/dev/null; then wheels+=("$wheel"); fi
  done
  rm -rf "$root"
  [ ${#wheels[@]} -gt 0 ] || fail "$OTHER_ROOT, $name, has none of the CPythons that wheels are for"
  for wheel in "${wheels[@]}"; do
    say "$(basename "$wheel") in $OTHER_ROOT, $name"
    try_portable "$wheel"
  done
}

portable=("$packages"/portable/*.whl)
if [ -e "${portable[0]}" ]; then
  for wheel in "${portable[@]}"; do
    say "$(basename "$wheel") on Debian 12"
    base_of debian12 bookworm
    try_portable "$wheel"
  done
  # A glibc that is newer than the one of the build may make other system calls, and an older one lack some.
  system=$(/usr/bin/python3 -c 'import sys; print("3.%d" % sys.version_info[1])')
  others=()
  for wheel in "${portable[@]}"; do [ "$wheel" = "$(wheel_of "$system")" ] || others+=("$wheel"); done
  if [ ${#others[@]} -gt 0 ]; then
    say "$(basename "${others[-1]}") on Debian 13"
    base_of debian13 trixie
    try_portable "${others[-1]}"
  else
    skip "Debian 13, for whose root there is no other CPython than the system's"
  fi
  try_ubuntu 22.04 jammy 3.10
  try_ubuntu 24.04 noble 3.12
  try_other
fi
[ -z "$skipped" ] || { say "all that was not skipped works in a root of its own"; exit 77; }
say "all of them work in roots of their own"
