#!/usr/bin/env bash
# Fills an empty folder with files of the formats of docs/formats.md, from tests/decode/golden and, where it has an
# encoder, by ffmpeg: make_media.sh FOLDER.
set -euo pipefail
golden=$(dirname "$(readlink -f "$0")")/../tests/decode/golden
folder=$1
mkdir -p "$folder"

find "$golden" -type f -regex '.*\.\(jpg\|png\|webp\|gif\|bmp\|tif\|heic\|avif\)' -exec cp -t "$folder" {} +

# video FILE OPTIONS...
video() {
  ffmpeg -nostdin -loglevel error -f lavfi -i "testsrc2=size=352x288:rate=10:duration=2" -pix_fmt yuv420p "${@:2}" \
    "$folder/$1"
}
video h264.mp4 -c:v libx264
video h264.mov -c:v libx264 -bf 2
video hevc.mkv -c:v libx265 -x265-params log-level=error
video vp8.webm -c:v libvpx
video vp9.webm -c:v libvpx-vp9
video av1.mkv -c:v libaom-av1 -cpu-used 8
video mpeg4.avi -c:v mpeg4
video mpeg2.ts -c:v mpeg2video -r 25
video mpeg2.mpg -c:v mpeg2video -r 25
video mpeg1.mpg -c:v mpeg1video -r 25
video mjpeg.avi -c:v mjpeg -strict unofficial
video prores.mov -c:v prores -pix_fmt yuv422p10le
video ffv1.mkv -c:v ffv1
video flv1.flv -c:v flv1
video h264.flv -c:v libx264
video h264.ts -c:v libx264
video wmv1.wmv -c:v wmv1
video wmv2.wmv -c:v wmv2
video msmpeg4.avi -c:v msmpeg4
video theora.ogv -c:v libtheora
video h263.3gp -c:v h263

# sound FILE OPTIONS...
sound() {
  ffmpeg -nostdin -loglevel error -f lavfi -i "sine=frequency=330:sample_rate=44100:duration=2" "${@:2}" "$folder/$1"
}
sound pcm.wav
sound float.wav -c:a pcm_f32le
sound mp3.wav -c:a libmp3lame
sound rf64.wav -rf64 always
sound adpcm.wav -c:a adpcm_ms
sound ima.wav -c:a adpcm_ima_wav
sound alaw.wav -c:a pcm_alaw
sound mulaw.wav -c:a pcm_mulaw
sound gsm.wav -c:a libgsm_ms -ar 8000
sound flac.flac
sound vorbis.ogg -c:a libvorbis
sound opus.opus -c:a libopus
sound flac.oga -c:a flac
sound speex.spx -c:a libspeex -ar 16000
sound mp3.mp3 -c:a libmp3lame
sound aac.m4a -c:a aac
# With sound it is a video still.
ffmpeg -nostdin -loglevel error -i "$folder/h264.mp4" -i "$folder/aac.m4a" -c copy "$folder/h264_aac.mp4"
sound alac.m4a -c:a alac
sound aac.aac -c:a aac
sound wma.wma -c:a wmav2
sound pcm.aiff
sound pcm.caf
sound flac.mka -c:a flac
sound opus.weba -c:a libopus -f webm
