#include "decode/image/jpeg_rows.h"

// jpeglib.h wants stdio.h before it.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "decode/image/image_codecs.h"
#include "decode/image/image_decoder.h"

namespace isocost {
namespace {

constexpr auto kBatch = static_cast<std::int32_t>(kResampleBatch);
constexpr int kMostScans = 500;  // the limit of libjpeg-turbo's own tools

// Returns whether libjpeg-turbo warns although no pixel is missing.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_ADOBE_XFORM ||
         warning == JWRN_JFIF_MAJOR;
}

// State for libjpeg's callbacks, which find it because its first member is the one that the decoder
// points to.
struct Errors {
  jpeg_error_mgr manager;
  std::jmp_buf escape;
  std::array<char, JMSG_LENGTH_MAX> message;
  bool is_memory;
  bool has_resynced;  // A restart marker was missing.
  bool takes_damage;
};

// State of the source of bytes, which its callbacks find as with Errors.
struct Source {
  jpeg_source_mgr manager;
  bool has_ended;
};

// State for the progress callback, which finds it as with Errors.
struct Progress {
  jpeg_progress_mgr manager;
  const DecodeLimit* limit;
  std::int64_t calls;
  bool is_over;
};

void begin_source(j_decompress_ptr /*jpeg*/) {}
void end_source(j_decompress_ptr /*jpeg*/) {}

// Puts a mark that ends the picture after the last byte, as Pillow does with files that are cut
// off. If the decoder wants more, it has to wait, and returns.
boolean refill(j_decompress_ptr jpeg) {
  static constexpr std::array<JOCTET, 2> kEndOfImage = {0xFF, JPEG_EOI};
  auto* source = reinterpret_cast<Source*>(jpeg->src);
  if (std::exchange(source->has_ended, true)) return FALSE;
  jpeg->err->msg_code = JWRN_JPEG_EOF;
  jpeg->err->emit_message(reinterpret_cast<j_common_ptr>(jpeg), -1);
  source->manager.next_input_byte = kEndOfImage.data();
  source->manager.bytes_in_buffer = kEndOfImage.size();
  return TRUE;
}

void skip(j_decompress_ptr jpeg, long bytes) {
  jpeg_source_mgr& source = *jpeg->src;
  for (auto left = static_cast<std::size_t>(std::max(bytes, 0L)); left > 0;) {
    const std::size_t here = std::min(left, source.bytes_in_buffer);
    source.next_input_byte += here;
    source.bytes_in_buffer -= here;
    left -= here;
    if (left > 0 && refill(jpeg) == FALSE) return;
  }
}

[[noreturn]] void give_up(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  errors->is_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
  jpeg->err->format_message(jpeg, errors->message.data());
  std::longjmp(errors->escape, 1);
}

bool is_restart_marker(int marker) { return marker >= 0xD0 && marker <= 0xD7; }

// Returns whether the warning comes of a single restart marker that is missing: the next one stands
// in its place, and one interval has no data of its own and stays grey, as in other readers.
// Another marker there means that the file ends early, and further ones that more is lost.
bool is_of_missing_restart(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  if (jpeg->err->msg_code == JWRN_MUST_RESYNC) {
    const int found = jpeg->err->msg_parm.i[0];
    const int expected = jpeg->err->msg_parm.i[1];
    const bool is_next = is_restart_marker(found) && ((found - 0xD0 - expected) & 7) == 1;
    return is_next && !std::exchange(errors->has_resynced, true);
  }
  return jpeg->err->msg_code == JWRN_HIT_MARKER && errors->has_resynced &&
         is_restart_marker(reinterpret_cast<j_decompress_ptr>(jpeg)->unread_marker);
}

// Takes a message. A level below 0 is a warning that the file is damaged.
void take_message(j_common_ptr jpeg, int level) {
  if (level >= 0 || is_harmless(jpeg->err->msg_code) || is_of_missing_restart(jpeg)) return;
  if (!reinterpret_cast<const Errors*>(jpeg->err)->takes_damage) give_up(jpeg);
}

void ignore_message(j_common_ptr /*jpeg*/) {}

// Checks the limits. Called for a row of blocks of each scan that is read, and when rows are
// requested.
void keep_limits(j_common_ptr jpeg) {
  constexpr int kCallsForEach = 16;  // reading the clock takes 0.3 us
  auto* progress = reinterpret_cast<Progress*>(jpeg->progress);
  if (progress->calls++ % kCallsForEach == 0 && !progress->limit->check({}, 0).has_value()) {
    progress->is_over = true;
    std::longjmp(reinterpret_cast<Errors*>(jpeg->err)->escape, 1);
  }
  // A small file may demand any number of passes over a large picture.
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (decoder->input_scan_number <= kMostScans) return;
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  std::snprintf(errors->message.data(), errors->message.size(), "more than %d scans", kMostScans);
  std::longjmp(errors->escape, 1);
}

// Converts Adobe's form of CMYK, the only one in use, to RGB: 255 is no ink.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::size_t pixels, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < pixels; ++i, cmyk += 4) {
    const unsigned key = cmyk[3];
    for (std::size_t c = 0; c < 3; ++c) {
      *rgb++ = static_cast<std::uint8_t>((cmyk[c] * key + 127) / 255);
    }
  }
}

}  // namespace

std::int32_t jpeg_divisor(std::int32_t width, std::int32_t height, std::int32_t target_width,
                          std::int32_t target_height) {
  for (const std::int32_t divisor : {8, 4, 2}) {
    if (width / divisor >= target_width && height / divisor >= target_height) return divisor;
  }
  return 1;
}

struct JpegRows::Decoder {
  jpeg_decompress_struct jpeg{};
  DecodeLimit limit;
  Progress progress{};
  Errors errors{};
  Source source{};
  bool is_black = false;           // Truncated before anything of it can be shown.
  std::int32_t width = 0;          // width of the picture, even if columns are left out
  std::vector<std::uint8_t> rows;  // kResampleBatch rows, each with slack
  std::size_t stride = 0;
  std::vector<std::uint8_t> cmyk;  // one row, where the file has four channels

  explicit Decoder(DecodeLimit allowed) : limit(std::move(allowed)) {
    progress.manager.progress_monitor = keep_limits;
    progress.limit = &limit;
    jpeg.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = give_up;
    errors.manager.emit_message = take_message;
    errors.manager.output_message = ignore_message;
    source.manager.init_source = begin_source;
    source.manager.fill_input_buffer = refill;
    source.manager.skip_input_data = skip;
    source.manager.resync_to_restart = jpeg_resync_to_restart;
    source.manager.term_source = end_source;
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }

  // Runs calls of libjpeg, which leave by a jump on failure: `work` must own nothing.
  template <typename Work>
  Status run(const Work& work) {
    if (setjmp(errors.escape) == 0) {  // NOLINT(cert-err52-cpp): libjpeg has no other way
      work();
      return {};
    }
    if (errors.is_memory) throw std::bad_alloc();
    if (progress.is_over) return limit.check({}, 0);  // an exceeded time or a stop is permanent
    return corrupt(std::string("its JPEG does not decode: ") + errors.message.data());
  }

  Status start(ByteView file, ImageDecoding how) {
    errors.takes_damage = how.truncated == Truncated::kAccept;
    return run([&] {
      jpeg_create_decompress(&jpeg);
      jpeg.progress = &progress.manager;
      jpeg.src = &source.manager;
      source.manager.next_input_byte = file.data();
      source.manager.bytes_in_buffer = file.size();
      if (jpeg_read_header(&jpeg, TRUE) == JPEG_SUSPENDED) ERREXIT(&jpeg, JERR_INPUT_EOF);
      const bool has_ink = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
      jpeg.out_color_space = has_ink ? JCS_CMYK : JCS_RGB;
      jpeg.scale_num = 1;
      jpeg.scale_denom = static_cast<unsigned>(how.divisor);
      if (how.exactness == Exactness::kFast) {
        jpeg.dct_method = JDCT_IFAST;
        jpeg.do_fancy_upsampling = FALSE;
      }
      jpeg_calc_output_dimensions(&jpeg);
    });
  }

  void make_room() {
    width = static_cast<std::int32_t>(jpeg.output_width);
    stride = std::size_t{jpeg.output_width} * 3 + kResampleSlack;
    rows.resize(kResampleBatch * stride);
    if (jpeg.out_color_space == JCS_CMYK) cmyk.resize(std::size_t{jpeg.output_width} * 4);
  }

  std::int32_t height() const { return static_cast<std::int32_t>(jpeg.output_height); }
  std::int32_t next() const { return static_cast<std::int32_t>(jpeg.output_scanline); }

  // Returns how many columns at the sides of the decoded part may differ from those of the whole
  // picture: colours are interpolated with the next sample's, and where a progressive file ends
  // early, blocks are smoothed with the two before them.
  std::int32_t inexact_columns() {
    const std::int32_t sample = jpeg.max_h_samp_factor;
    const std::int32_t block = sample * jpeg.min_DCT_scaled_size;
    return sample + (jpeg_has_multiple_scans(&jpeg) != FALSE ? 2 * block : 0);
  }

  // Skips the rows before `end`.
  Status pass_rows(std::int32_t end) {
    // Skips whole rows of blocks, because libjpeg-turbo miscounts others where colours are not
    // interpolated. Never skips all rows that are left, because it would then not read the rest of
    // the file.
    const std::int32_t block = jpeg.max_v_samp_factor * jpeg.min_DCT_scaled_size;
    ISOCOST_TRY(drop_rows(std::min(end, (next() + block - 1) / block * block)));
    const std::int32_t at_once = 512 / block * block;  // takes some milliseconds
    for (;;) {
      const std::int32_t left = std::min(end, height() - 1) / block * block - next();
      if (left <= 0) return drop_rows(end);
      ISOCOST_TRY(limit.check({}, 0));
      const auto skipped = static_cast<JDIMENSION>(std::min(left, at_once));
      ISOCOST_TRY(run([&] { jpeg_skip_scanlines(&jpeg, skipped); }));
    }
  }

  Status drop_rows(std::int32_t end) {
    while (next() < end) ISOCOST_TRY(read_rows(std::min(kBatch, end - next())));
    return {};
  }

  // Within `run`. Reads at least one row.
  std::int32_t read_some_rows(JSAMPARRAY into, std::int32_t count) {
    const JDIMENSION read = jpeg_read_scanlines(&jpeg, into, static_cast<JDIMENSION>(count));
    if (read == 0) ERREXIT(&jpeg, JERR_INPUT_EOF);
    return static_cast<std::int32_t>(read);
  }

  // Reads the next `count` rows to the first places.
  Status read_rows(std::int32_t count) {
    return run([&] {
      std::array<JSAMPROW, kResampleBatch> into{};
      for (std::size_t i = 0; i < kResampleBatch; ++i) into[i] = rows.data() + i * stride;
      for (std::int32_t done = 0; done < count;) {
        if (cmyk.empty()) {
          done += read_some_rows(into.data() + done, count - done);
          continue;
        }
        JSAMPROW row = cmyk.data();
        done += read_some_rows(&row, 1);
        cmyk_to_rgb(cmyk.data(), jpeg.output_width, into[static_cast<std::size_t>(done - 1)]);
      }
    });
  }
};

JpegRows::JpegRows(std::unique_ptr<Decoder> decoder) : decoder_(std::move(decoder)) {}
JpegRows::~JpegRows() = default;

Result<std::unique_ptr<JpegRows>> JpegRows::open(ByteView file, std::int32_t width,
                                                 std::int32_t height, ImageDecoding how,
                                                 DecodeLimit limit) {
  auto decoder = std::make_unique<Decoder>(std::move(limit));
  ISOCOST_TRY(decoder->start(file, how));
  const jpeg_decompress_struct& jpeg = decoder->jpeg;
  if (std::cmp_not_equal(jpeg.image_width, width) ||
      std::cmp_not_equal(jpeg.image_height, height)) {
    return corrupt("its JPEG header has changed since it was probed");
  }
  decoder->make_room();
  ISOCOST_TRY(
      decoder->run([&] { decoder->is_black = jpeg_start_decompress(&decoder->jpeg) == FALSE; }));
  return std::unique_ptr<JpegRows>(new JpegRows(std::move(decoder)));
}

std::int32_t JpegRows::width() const { return decoder_->width; }
std::int32_t JpegRows::height() const { return decoder_->height(); }

Result<std::int32_t> JpegRows::restrict_columns(std::int32_t first, std::int32_t end) {
  if (decoder_->is_black) return 0;
  const std::int32_t inexact = decoder_->inexact_columns();
  const std::int32_t left = std::max(first - inexact, 0);
  auto begin = static_cast<JDIMENSION>(left);  // decoding begins at the block that contains it
  auto count = static_cast<JDIMENSION>(std::min(end + inexact, width()) - left);
  ISOCOST_TRY(decoder_->run([&] { jpeg_crop_scanline(&decoder_->jpeg, &begin, &count); }));
  return static_cast<std::int32_t>(begin);
}

Status JpegRows::read(std::int32_t first, std::array<const std::uint8_t*, kResampleBatch>& rows) {
  const std::int32_t count = std::min(kBatch, height() - first);
  if (!decoder_->is_black) {
    ISOCOST_TRY(decoder_->pass_rows(first));
    ISOCOST_TRY(decoder_->read_rows(count));
  }
  for (std::int32_t i = 0; i < kBatch; ++i) {
    const auto at = static_cast<std::size_t>(std::min(i, count - 1));
    rows[static_cast<std::size_t>(i)] = decoder_->rows.data() + at * decoder_->stride;
  }
  return {};
}

Status JpegRows::finish() {
  if (decoder_->is_black) return {};
  ISOCOST_TRY(decoder_->pass_rows(height()));
  return decoder_->run([this] { jpeg_finish_decompress(&decoder_->jpeg); });
}

Result<Pixels> decode_jpeg(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& limit) {
  ISOCOST_ASSIGN(const std::unique_ptr<JpegRows> rows,
                 JpegRows::open(file, width, height, how, limit));
  Pixels pixels{rows->width(), rows->height(), {}};
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(pixels.width, pixels.height, 3));
  pixels.rgb.reserve(bytes);
  const std::ptrdiff_t row = std::ptrdiff_t{pixels.width} * 3;
  for (std::int32_t y = 0; y < pixels.height; y += static_cast<std::int32_t>(kResampleBatch)) {
    std::array<const std::uint8_t*, kResampleBatch> some{};
    ISOCOST_TRY(rows->read(y, some));
    const auto count = std::min<std::int32_t>(kResampleBatch, pixels.height - y);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      pixels.rgb.insert(pixels.rgb.end(), some[i], some[i] + row);
    }
  }
  ISOCOST_TRY(rows->finish());
  return pixels;
}

}  // namespace isocost
