#!/usr/bin/env bash
# Builds the libraries of sources.txt for a self-contained wheel, and prints the folder that they are installed in. They
# are kept in the user's cache folder, by a hash of how they are made: a second call only prints, and one after a failure
# or without libavif goes on. After --kept nothing is built, and the status is 77 where they are not kept.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
jobs=${JOBS:-$(nproc)}

. "$here/../functions.sh"

recipe=$({ cat "$here"/{sources.txt,fetch_sources.sh,build_libraries.sh,old_symbols.h} && cc --version; } | sha256sum |
  cut -c1-16)
kept=${XDG_CACHE_HOME:-$HOME/.cache}/isocost/portable
prefix=$kept/$recipe
[ ! -e "$prefix/complete" ] || { echo "$prefix"; exit; }
[ "${1:-}" != --kept ] || exit 77

# Another call in the meantime waits for this one.
mkdir -p "$kept"
exec 9>"$kept/lock"
flock 9
[ ! -e "$prefix/complete" ] || { echo "$prefix"; exit; }
mkdir -p "$prefix/built" "$prefix/copyright"
work=$(mktemp -d "$kept/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching the sources of the wheel's libraries"
"$here/fetch_sources.sh" "$work/sources"
cd "$work/sources"

export CFLAGS="-O2 -fPIC -fstack-protector-strong -D_FORTIFY_SOURCE=2 -include $here/old_symbols.h"
export CXXFLAGS=$CFLAGS LDFLAGS="-Wl,-z,relro,-z,now" PKG_CONFIG_PATH=$prefix/lib/pkgconfig

# with_cmake OPTIONS...: configures, builds and installs the sources in the working directory.
with_cmake() {
  cmake -S . -B build.isocost -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_POSITION_INDEPENDENT_CODE=ON "$@"
  cmake --build build.isocost --parallel "$jobs" --target install
}

# With OpenSSL for shards on servers of HTTPS. Certificates are those that Isocost finds: a wheel has none of its own.
build_curl() {
  with_cmake -DBUILD_SHARED_LIBS=OFF -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON \
    -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none \
    -DCURL_ZLIB=OFF -DCURL_USE_LIBPSL=OFF -DCURL_USE_LIBSSH2=OFF -DUSE_LIBIDN2=OFF -DCURL_USE_GSSAPI=OFF
  # CMake takes the files of libraries that are named here for options, and links them before libcurl.
  sed -i 's#/[^ ]*/lib\(ssl\|crypto\)\.so#-l\1#g' "$prefix/lib/pkgconfig/libcurl.pc"
}

# Static, since auditwheel leaves libexpat.so to the system, and containers whose Python is no package have none.
build_expat() {
  cd expat
  # Debian's patches compare its value, which CMake's configuration leaves empty.
  sed -i 's/#cmakedefine XML_DTD/#define XML_DTD 1/' expat_config.h.cmake
  # Names that glibc has from 2.36 on.
  with_cmake -DBUILD_SHARED_LIBS=OFF -DEXPAT_BUILD_TOOLS=OFF -DEXPAT_BUILD_EXAMPLES=OFF -DEXPAT_BUILD_TESTS=OFF \
    -DEXPAT_BUILD_DOCS=OFF -DHAVE_ARC4RANDOM_BUF=0 -DHAVE_ARC4RANDOM=0
}

# FFmpeg for the formats of docs/formats.md, and BMP; without the parts under the GPL. Shared, as the LGPL wants it.
build_ffmpeg() {
  local demuxers=mov,matroska,avi,mpegts,mpegps,flv,asf,ogg,aac,aiff,caf
  # Those of streams alone tell codecs that MPEG-PS and MPEG-TS do not name.
  demuxers+=,ac3,dts,dvbsub,dvbtxt,eac3,h264,hevc,loas,m4v,mp3,mpegvideo,truehd
  local video=h264,hevc,vp8,vp9,libdav1d,mpeg4,mpeg1video,mpeg2video,mjpeg,prores,ffv1,vc1,wmv1,wmv2,wmv3
  video+=,msmpeg4v1,msmpeg4v2,msmpeg4v3,flv,vp6f,h263,theora
  local sound=aac,aac_latm,alac,mp1float,mp2float,mp3float,ac3,eac3,flac,vorbis,opus,speex,wmav1,wmav2,wmapro
  sound+=,wmalossless,wmavoice,amrnb,amrwb,pcm_s8,pcm_u8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be
  sound+=,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,pcm_alaw,pcm_mulaw,pcm_dvd,pcm_bluray,adpcm_ima_qt,adpcm_ima_wav
  sound+=,adpcm_ms,adpcm_swf
  ./configure --prefix="$prefix" --enable-shared --disable-static --enable-pic --disable-debug \
    --disable-everything --disable-autodetect --disable-programs --disable-doc --disable-network --disable-avdevice \
    --disable-avfilter --disable-postproc --enable-zlib --enable-bzlib --enable-libdav1d --enable-parsers \
    --enable-bsf=extract_extradata --enable-demuxer=$demuxers --enable-decoder=$video,$sound \
    --extra-cflags="$CFLAGS" --extra-ldflags="$LDFLAGS"
  make -j"$jobs"
  make install
}

# Plain tar files: compressed ones are inflated before.
build_libarchive() {
  # A name that glibc has from 2.36 on.
  sed -i 's/\<arc4random_buf\>/own_random_buf/' libarchive/archive_random.c
  local library options=()
  for library in ACL BZip2 CAT CNG CPIO EXPAT ICONV LIBB2 LIBXML2 LZ4 LZMA LZO NETTLE OPENSSL PCREPOSIX TAR TEST XATTR \
    ZLIB ZSTD; do
    options+=("-DENABLE_$library=OFF")
  done
  with_cmake -DHAVE_ARC4RANDOM_BUF=0 "${options[@]}"
}

build_libavif() {
  with_cmake -DBUILD_SHARED_LIBS=ON -DAVIF_CODEC_DAV1D=ON -DAVIF_ENABLE_WERROR=OFF
}

build_libheif() {
  with_cmake -DBUILD_SHARED_LIBS=ON -DWITH_EXAMPLES=OFF -DWITH_GDK_PIXBUF=OFF -DENABLE_PLUGIN_LOADING=OFF \
    -DWITH_LIBDE265=ON -DWITH_X265=OFF -DWITH_AOM_DECODER=OFF -DWITH_AOM_ENCODER=OFF -DWITH_DAV1D=OFF \
    -DWITH_RAV1E=OFF -DWITH_SvtEnc=OFF -DWITH_LIBSHARPYUV=OFF -DWITH_DEFLATE_HEADER_COMPRESSION=OFF
}

build_libmicrohttpd() {
  ./configure --prefix="$prefix" --disable-static --disable-https --disable-doc --disable-examples --disable-curl
  make -j"$jobs"
  make install
}

build_spdlog() {
  with_cmake -DSPDLOG_BUILD_SHARED=OFF -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF -DSPDLOG_BUILD_TESTS=OFF
}

# Debian's loads libjbig, which is under the GPL, and others for compression that is not read.
build_tiff() {
  with_cmake -DBUILD_SHARED_LIBS=ON -Djpeg=ON -Dzlib=ON -Dlibdeflate=ON -Djbig=OFF -Dlerc=OFF -Dlzma=OFF -Dzstd=OFF \
    -Dwebp=OFF -Dcxx=OFF -Dtiff-tools=OFF -Dtiff-tests=OFF -Dtiff-contrib=OFF -Dtiff-docs=OFF
}

build_zeromq3() {
  with_cmake -DBUILD_SHARED=ON -DBUILD_STATIC=OFF -DBUILD_TESTS=OFF -DWITH_DOCS=OFF -DWITH_PERF_TOOL=OFF \
    -DENABLE_CURVE=ON -DWITH_LIBSODIUM=ON -DENABLE_WS=OFF -DWITH_TLS=OFF -DWITH_LIBBSD=OFF -DWITH_NORM=OFF \
    -DWITH_OPENPGM=OFF -DWITH_GSSAPI_KRB5=OFF
}

while read -r name version hash; do
  # A library that an earlier call has built is taken if it was this very source.
  [ "$(cat "$prefix/built/$name" 2>/dev/null)" != "$name $version $hash" ] || continue
  say "building $name"
  (cd "$name" && "build_$name") >"$work/$name.log" 2>&1 </dev/null || { tail -20 "$work/$name.log" >&2; exit 1; }
  cp "$name/debian/copyright" "$prefix/copyright/$name"
  echo "$name $version $hash" >"$prefix/built/$name"
done <fetched
cp fetched "$prefix/sources"
# Without libavif the next call asks the archive again.
! grep -q '^libavif ' fetched || touch "$prefix/complete"
echo "$prefix"
